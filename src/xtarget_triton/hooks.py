"""Triton's lists of launch hooks (`triton.knobs.runtime.launch_enter_hook.add`) tell xtarget when
they change, so that launches of `xtarget.run` call these hooks too."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["tell_changes"]


class _Told(list[Any]):
    """The functions of a chain. Each change is told to xtarget, if the process uses it."""


def _telling(name: str) -> Any:
    change = getattr(list, name)

    def changed(self: _Told, *args: Any, **options: Any) -> Any:
        result = change(self, *args, **options)
        if "xtarget._launch.run" in sys.modules:
            from xtarget._launch import triton_hooks

            triton_hooks.follow()
        return result

    return changed


for _name in ("append", "clear", "extend", "insert", "pop", "remove", "__delitem__", "__iadd__"):
    setattr(_Told, _name, _telling(_name))


def tell_changes() -> None:
    """Have this process's lists of hooks tell it. A Triton without them is left as it is."""
    runtime = getattr(sys.modules.get("triton.knobs"), "runtime", None)
    for name in ("launch_enter_hook", "launch_exit_hook"):
        chain = getattr(runtime, name, None)
        if type(getattr(chain, "calls", None)) is list:
            chain.calls = _Told(chain.calls)  # type: ignore[union-attr]  # it has the attribute
