"""Small programs for torch.compile on a CPU: `python inductor_programs.py NAME...` runs and checks
them, and prints Inductor's counters as JSON. With `--seconds` it prints the time of a call."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

Program = tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]


def _norm(x: Any, w: Any) -> Any:
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v


def _scatter(x: Any, index: Any) -> Any:
    return torch.zeros(50).index_add(0, index, x * 2) + 1


def _loss(x: Any, target: Any) -> Any:
    return torch.nn.functional.cross_entropy(x, target)


def _dropped(x: Any) -> Any:
    return torch.where(x > 0, x.exp(), x.to(torch.bfloat16).float() * 3).amax(1)


def _gradient(x: Any) -> Any:
    x = x.detach().requires_grad_()
    (torch.nn.functional.gelu(x) * x).sum().backward()
    return x.grad


def _joined(x: Any, y: Any) -> Any:
    return torch.cat([x.sin(), y.T.contiguous()], 1).cumsum(1)


PROGRAMS: dict[str, Program] = {
    "pointwise": (
        lambda x, y: (x.sin() + y * 2).relu().sum(-1),
        lambda: (torch.randn(500, 700), torch.randn(500, 700)),
    ),
    "softmax": (lambda x: torch.softmax(x, -1), lambda: (torch.randn(400, 1000),)),
    "layer_norm": (_norm, lambda: (torch.randn(300, 768), torch.randn(768))),
    "attention": (_attention, lambda: tuple(torch.randn(4, 65, 32) for _ in range(3))),
    "scatter": (_scatter, lambda: (torch.randn(999), torch.randint(0, 50, (999,)))),
    "cross_entropy": (_loss, lambda: (torch.randn(128, 501), torch.randint(0, 501, (128,)))),
    "where": (_dropped, lambda: (torch.randn(257, 129),)),
    "gradient": (_gradient, lambda: (torch.randn(333, 77),)),
    "joined": (_joined, lambda: (torch.randn(60, 40), torch.randn(30, 60))),
    "integers": (
        lambda x: ((x // 3) % 7 * 5 - x.abs()).prod(1),
        lambda: (torch.randint(-50, 50, (64, 6)),),
    ),
}


def _seconds(call: Callable[..., Any], given: tuple[Any, ...]) -> float:
    """The best of a call's time, of rounds of 20 ms."""
    best = float("inf")
    for _ in range(15):
        count, begun = 0, time.perf_counter()
        while (passed := time.perf_counter() - begun) < 0.02:
            call(*given)
            count += 1
        best = min(best, passed / count)
    return best


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("--")] or list(PROGRAMS)
    if "--enable" in sys.argv:
        import xtarget.torch

        xtarget.torch.enable_inductor()
    said: dict[str, Any] = {}
    for name in names:
        torch.manual_seed(1)
        torch.compiler.reset()
        program, make = PROGRAMS[name]
        given = make()
        compiled = torch.compile(program)
        torch.testing.assert_close(compiled(*given), program(*given), rtol=1e-4, atol=1e-4)
        if "--seconds" in sys.argv:
            said[name] = [_seconds(compiled, given), _seconds(program, given)]
    from torch._dynamo.utils import counters

    print(json.dumps({"counters": counters["inductor"], "seconds": said}))


if __name__ == "__main__":
    main()
