"""Torch's core operators, of which its compilers make others: a kernel of each name, or why not."""

from __future__ import annotations

import pytest

import xtarget
from xtarget._kernels import libraries

pytest.importorskip("torch", reason="torch is not installed")

import torch

#: Not yet here: the gradients of group_norm.
MISSING = {"native_group_norm_backward"}


def core() -> set[str]:
    packets = {name: getattr(torch.ops.aten, name) for name in dir(torch.ops.aten)}
    return {
        name
        for name, packet in packets.items()
        # sizes, and a change of size, are not computations
        if not name.startswith(("sym_", "resize_"))
        and hasattr(packet, "overloads")
        and any(torch.Tag.core in getattr(packet, one).tags for one in packet.overloads())
    }


def test_core_operators_are_found_or_refused_with_a_reason() -> None:
    names = core()
    assert len(names) > 140
    absent = set()
    for name in names:
        plain = name.lstrip("_")
        try:
            libraries.find(plain)
        except xtarget.UnknownKernelError:
            if not libraries.is_refused(plain):
                absent.add(name)
    assert absent <= MISSING
