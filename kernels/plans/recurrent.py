"""From call to launches: recurrent cells, and layers of them: a launch for each step."""

from __future__ import annotations

from collections.abc import Callable

from xtarget import spec

from . import tuning
from .elementwise import compute_dtype
from .movement import copy_launch
from .options import one_of

__all__ = ["recurrent"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_GATES = {"lstm": 4, "gru": 3, "rnn": 1}
#: More steps than a plan may have launches for.
_MOST = 4096


def recurrent(kind: str, *, layer: bool) -> Callable[[spec.Call], spec.Plan]:
    """The plan of a cell (x, state, weights), or of a layer (x, weights, perhaps the first state):
    the results of all steps, and the last state.
    """

    def plan(call: spec.Call) -> spec.Plan:
        return _Recurrence(call, kind, layer).plan()

    return plan


class _Recurrence:
    def __init__(self, call: spec.Call, kind: str, layer: bool) -> None:
        self.call, self.kind, self.layer = call, kind, layer
        self.states = ("h", "c") if kind == "lstm" else ("h",)
        count = len(self.states)
        order = ("w_ih", "w_hh", "b_ih", "b_hh")
        names = ("x", *order, *self.states) if layer else ("x", *self.states, *order)
        self.given = {
            name: index
            for index, name in enumerate(names)
            if index < len(call.args) and call.args[index] is not spec.ABSENT
        }
        for name, index in self.given.items():
            if call.array(index).dtype not in _FLOATS:
                raise spec.ArgumentError(
                    f"{call.kernel}: {name} is {call.array(index).dtype}; it has to be one of "
                    f"{', '.join(_FLOATS)}."
                )
        if call.out is not None and (layer or count > 1):
            raise spec.ArgumentError(f"{call.kernel} gives several arrays. Leave out= out.")
        x = self._array("x")
        if layer and call.options["batch_first"] and x.ndim == 3:
            x = spec.ArrayType(
                x.dtype, (x.shape[1], x.shape[0], x.shape[2]),
                (x.strides[1], x.strides[0], x.strides[2]),
            )  # fmt: skip
        if x.ndim != (3 if layer else 2):
            form = "(steps, batch, elements)" if layer else "(batch, elements)"
            raise spec.ArgumentError(f"{call.kernel}: x has shape {x.shape}; it needs {form}.")
        if not layer:
            x = spec.ArrayType(x.dtype, (1, *x.shape), (0, *x.strides))
        self.x = x
        self.steps = x.shape[0].__index__()
        self.batch, self.inputs = x.shape[1:]
        gates = _GATES[kind]
        self.size = self._array("w_hh").shape[-1] if self._array("w_hh").ndim else 0
        wanted = {
            "w_ih": (gates * self.size, self.inputs), "w_hh": (gates * self.size, self.size),
            "b_ih": (gates * self.size,), "b_hh": (gates * self.size,),
            "h": (self.batch, self.size), "c": (self.batch, self.size),
        }  # fmt: skip
        for name, shape in wanted.items():
            if name in self.given and self._array(name).shape != shape:
                raise spec.ArgumentError(
                    f"{call.kernel}: {name} has shape {self._array(name).shape}; with {gates} "
                    f"gates of {self.size} elements it needs {shape}."
                )
        if self.steps > _MOST:
            raise spec.ArgumentError(
                f"{call.kernel}: x has {self.steps} steps, and a plan has at most {_MOST} launches "
                "for them. Give it in pieces, each with the last state of the one before."
            )

    def _array(self, name: str) -> spec.ArrayType:
        return self.call.array(self.given[name])

    def plan(self) -> spec.Plan:
        call, batch, size = self.call, self.batch, self.size
        dtype = call.rules.promote(*(self._array(name).dtype for name in self.given))
        computed = compute_dtype(dtype)
        state = call.output((batch, size), dtype)
        outs = (state,) * len(self.states)
        views: tuple[int, int, int] = (0, size, 1)
        if self.layer:
            shape = (self.steps, batch, size)
            if call.options["batch_first"]:
                shape = (batch, self.steps, size)
            whole = spec.ArrayType(dtype, shape, spec.contiguous_strides(shape))
            outs = (whole, *outs)
            one, two, three = whole.strides
            views = (two, one, three) if call.options["batch_first"] else (one, two, three)
        else:
            views = (0, *state.strides)
        if not batch * size:
            return spec.Plan(outs, ())
        flat = spec.contiguous_strides((batch, size))
        room = [spec.ArrayType(computed, (2, batch, size), (batch * size, size, 1))]
        room += [spec.ArrayType(computed, (batch, size), flat)] * (len(self.states) - 1)
        launches: list[spec.Launch] = []
        for number, name in enumerate(self.states):
            if name in self.given:
                given = self._array(name)
                launches += copy_launch(
                    call, spec.Input(self.given[name]), given.shape, given.strides, flat,
                    out=spec.Temporary(number),
                )  # fmt: skip
        cleared = tuple(None if name in self.given else 0 for name in self.states)
        backwards = self.layer and call.options["reverse"]
        order = range(self.steps - 1, -1, -1) if backwards else range(self.steps)
        for turn, at in enumerate(order):
            launches.append(self._step(computed, at, turn, views))
        last = (self.steps % 2) * batch * size
        for number in range(len(self.states)):
            # a cell's only step has written h already
            if self.layer or number:
                launches += copy_launch(
                    call, spec.Temporary(number), (batch, size), flat, state.strides,
                    out=spec.Output(number + self.layer), from_x=0 if number else last,
                )  # fmt: skip
        return spec.Plan(outs, tuple(launches), tuple(room), (), cleared)

    def _step(self, computed: str, at: int, turn: int, views: tuple[int, int, int]) -> spec.Launch:
        call, size = self.call, self.size
        cpu = tuning.outer_products(call.vendor)
        block_h, block_k = (4, 16) if cpu else (16, 32)
        half = self.batch * size
        w, u = self._array("w_ih"), self._array("w_hh")
        names = {"b_ih": ("bw", "bj"), "b_hh": ("bu", "vj")}
        addresses: dict[str, spec.Argument] = {
            "x": spec.Input(self.given["x"]), "w": spec.Input(self.given["w_ih"]),
            "u": spec.Input(self.given["w_hh"]), "h": spec.Temporary(0), "y": spec.Output(0),
        }  # fmt: skip
        absent: dict[str, None] = {}
        steps = {
            "xb": self.x.strides[1], "xi": self.x.strides[2], "wj": w.strides[0],
            "wi": w.strides[1], "uj": u.strides[0], "uh": u.strides[1], "bj": 0, "vj": 0,
            "yb": views[1], "yj": views[2],
        }  # fmt: skip
        for name, (pointer, stride) in names.items():
            if name in self.given:
                addresses[pointer] = spec.Input(self.given[name])
                steps[stride] = self._array(name).strides[0]
            else:
                absent[pointer] = None
        if len(self.states) > 1:
            addresses["c"] = spec.Temporary(1)
        else:
            absent["c"] = None
        cell = self.kind
        if cell == "rnn":
            cell = one_of(call, "activation", ("tanh", "relu"))
        return spec.Launch(
            "recurrent:step",
            {
                **addresses,
                "inputs": self.inputs,
                "H": size,
                "from_x": at * self.x.strides[0],
                "from_h": turn % 2 * half,
                "to_h": (turn + 1) % 2 * half,
                "from_y": at * views[0],
                **{name: own for name, own in steps.items() if own != 1},
            },
            {
                **absent,
                **{name: 1 for name, own in steps.items() if own == 1},
                "CELL": cell,
                "T": spec.dtype_constant(computed),
                "BLOCK_H": block_h,
                "BLOCK_K": block_k,
            },
            (self.batch * spec.cdiv(size, block_h), 1, 1),
            num_warps=1 if cpu else 4,
            loose=("from_x", "from_h", "to_h", "from_y"),
        )
