"""The plans of kernels that `@xtarget.kernel` describes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from .._arrays.dtypes import natural_scalar
from .._values.authoring import REQUIRED, ArrayRule, Config, Out, Step
from .._values.choosing import CONFIG, Question
from .._values.errors import ArgumentError
from .._values.symbols import SymInt
from .._values.types import DTYPES, DtypeConstant
from ..spec import (
    Argument,
    ArrayType,
    Call,
    Input,
    Launch,
    Output,
    Plan,
    Scalar,
    Temporary,
    contiguous_strides,
)
from . import configs
from .checks import is_constant
from .contexts import Heuristic, formula, integer
from .declarations import Declaration, Parameters, constant_of, place_of, place_of_function
from .declared_inputs import Inputs
from .descriptors import Described, Descriptors
from .hooks import Asked, ask_hook

__all__ = ["planned"]


def planned(
    declaration: Declaration,
    function: Any,
    source_of: Callable[[Any], str],
    described: Described,
    parameters_of: Callable[[Any], Parameters],
    identity: Callable[[], str],
    rules: Sequence[Any],
    call: Call,
) -> Plan:
    """The plan of a call.

    Args:
        function: a Triton function; where the declaration has no grid, a function of the call that
            gives the steps.
        source_of: the name of a Triton function's source in launches.
        described: the function around one that takes tensor descriptors (`descriptors`).
        parameters_of: those of a Triton function.
        identity: what a measurement of the kernel's configurations is good for, as text.
        rules: the user's functions in the declaration.
    """
    planning = _Planning(declaration, parameters_of, call, source_of, described, identity)
    return planning.plan(function)


class _Planning:
    def __init__(
        self,
        declaration: Declaration,
        parameters_of: Callable[[Any], Parameters],
        call: Call,
        source_of: Callable[[Any], str] = str,
        described: Described | None = None,
        identity: Callable[[], str] = str,
    ) -> None:
        self._d, self._call = declaration, call
        self._source_of, self._parameters_of, self._identity = source_of, parameters_of, identity
        self._inputs = Inputs(declaration, call)
        self._context, self._ask = self._inputs.context, self._inputs.ask
        self._config: Config | None = None
        self._hooked = Asked()
        self._descriptors = Descriptors(declaration, call, self._context, self._ask, described)

    # ------------------------------------------------------------------------------------- plan

    def plan(self, function: Any) -> Plan:
        self.prepare()
        return self._planned(function)

    def prepare(self) -> None:
        """Check the arguments, and get the rules ready to be asked."""
        d, ask = self._d, self._ask
        if self._call.out is not None and len(d.outputs) != 1:
            names = ", ".join(d.outputs)
            hint = (
                f"Give out=({names}), an array for each, or by name"
                if names
                else "Call it without out="
            )
            raise ArgumentError(f"{d.name} has {len(d.outputs) or 'no'} outputs. {hint}.")
        self._inputs.bind_lengths()
        for name, array in self._inputs.arrays.items():
            if array is not None and not d.strided and d.tile_of(name) is None:
                self._require_layout(name, array)
        rules = self._context.__dict__["_rules"]
        for name in d.dims.keys() - self._context.__dict__.keys():  # no array that is given says it
            if name in d.solved:
                rules[name] = partial(ask.size, f"length {name!r}", d.solved[name])
            else:
                rules[name] = partial(_missing, d.name, name, d.dims[name])
        for name, size in d.sizes.items():
            rules[name] = partial(ask.size, f"size {name!r}", size)
        for name, value in d.constants.items():
            rules[name] = partial(self._constant, name, value)
        for name, heuristic in d.decided.items():
            flag = self._context.__dict__.pop(name)
            decide = partial(_decided, heuristic, flag, name in self._inputs.dtypes)
            rules[name] = partial(self._constant, name, decide)
        for part, made in (("output", d.outputs), ("workspace", d.workspaces)):
            for index, (name, out) in enumerate(made.items()):
                rules[name] = partial(self._layout, part, index, name, out)

    def _planned(self, function: Any) -> Plan:
        d = self._d
        state = self._context.__dict__  # what a pruning reads is of the first configuration
        before = {**state, "_rules": dict(state["_rules"])}
        self._config = self._choose()
        if d.configs:
            state.clear()
            state.update(before)
        outputs = tuple(getattr(self._context, name) for name in d.outputs)
        if self._config is not None and state.keys() & self._config.constants.keys():
            self._check_results(outputs)
        self._inputs.check_formulas()
        self._call.results(outputs)
        if self._config is not None and self._config.pre_hook is not None:
            self._hooked = self._ask_hook(self._config, self._config.pre_hook)
            self._descriptors.tiles = self._hooked.tiles
        launches = tuple(self._launches(function))
        return Plan(
            outputs,
            launches,
            tuple(getattr(self._context, name) for name in d.workspaces),
            tuple(self._hooked.filled.get(name, out.init) for name, out in d.outputs.items()),
            tuple(self._hooked.filled.get(name, out.init) for name, out in d.workspaces.items()),
        )

    def _check_results(self, outputs: tuple[ArrayType, ...]) -> None:
        """Configurations say how, never what: refuse results that follow from one."""
        d, plain = self._d, replace(self._call, out=None, outs=())
        number = next(n for n, config in enumerate(d.configs) if config is self._config)
        here = [f"{out.dtype} {tuple(map(int, out.shape))}" for out in outputs]
        for other, config in enumerate(d.configs):
            planning = _Planning(d, self._parameters_of, plain)
            planning.prepare()
            planning._config = config
            layouts = [getattr(planning._context, name) for name in d.outputs]
            there = [f"{out.dtype} {tuple(map(int, out.shape))}" for out in layouts]
            if here != there:
                raise ArgumentError(
                    f"{d.name}: config={other} ({config}) gives {', '.join(there)} where "
                    f"config={number} ({self._config}) gives {', '.join(here)}. A configuration "
                    "may not change the result; make the size a flag or an argument."
                )

    def _ask_hook(self, config: Config, hook: Callable[[Any], Any]) -> Asked:
        d = self._d
        made = {*d.outputs, *d.workspaces}
        known = {**config.constants, "num_warps": config.num_warps, "num_stages": config.num_stages}
        asked: Asked = self._ask.ask("pre_hook", lambda c: ask_hook(d.name, hook, c, known, made))
        return asked

    def _constant(self, name: str, value: Any) -> Any:
        if self._config is not None and name in self._config.constants:
            value = self._config.constants[name]
        if not callable(value):
            return value
        part = f"constant {name!r}"
        answer = constant_of(self._ask.ask(part, value))
        whole = integer(answer) if not isinstance(answer, bool | float) else None
        answer = answer if whole is None else whole
        if not is_constant(answer):
            raise self._ask.wrong(part, answer, "it has to be a number, a bool, text or a dtype")
        return answer

    def _layout(self, part: str, index: int, name: str, out: Out | ArrayRule) -> ArrayType:
        label = f"{part} {name!r}"
        if isinstance(out, Out):
            shape, dtype = self._ask.layout(label, out.like)
        elif out.dims is None:
            shape, dtype = self._ask.layout(label, out.dtype)
        else:
            shape = tuple(
                dim if type(dim) is int else self._ask.size(label, formula(label, dim))
                for dim in out.dims
            )
            shape, dtype = self._ask.layout(label, lambda c: (shape, self._dtype(out.dtype)))
        if part == "workspace":
            return Call.output(_UNCALLED, shape, dtype)
        made = self._call.output(shape, dtype, index)
        if not self._d.strided and self._d.tile_of(name) is None:
            self._require_layout(name, made)
        return made

    def _dtype(self, text: str) -> Any:
        """The dtype that a name stands for."""
        if text in DTYPES:
            return text
        found = getattr(self._context, text)
        return found.dtype if isinstance(found, ArrayType) else found

    def _require_layout(self, parameter: str, array: ArrayType) -> None:
        """Refuse strides that the kernel is not told."""
        said = self._d.steps.get(parameter, frozenset())
        told = {axis % array.ndim for axis in said if -array.ndim <= axis < array.ndim}
        if len(told) == array.ndim or array.contiguous:
            return
        dense = contiguous_strides(array.shape)
        apart = [
            axis
            for axis in range(array.ndim)
            if axis not in told and array.shape[axis] != 1 and array.strides[axis] != dense[axis]
        ]
        if not apart:
            return
        layout = f"(shape {array.shape}, strides {array.strides} elements)"
        if told:
            raise ArgumentError(
                f"{self._d.name}: {parameter} has a stride of {array.strides[apart[0]]} in "
                f"dimension {apart[0]} {layout}, and the kernel relies on {dense[apart[0]]} there. "
                "Pass a contiguous copy, or give the kernel this stride too: a parameter "
                f'that is Stride["{parameter}", {apart[0]}].'
            )
        raise ArgumentError(
            f"{self._d.name}: {parameter} is not C-contiguous {layout}, and the kernel takes no "
            "strides. Pass a contiguous copy, or give the kernel its strides: a parameter that is "
            f'Stride["{parameter}", {apart[0]}], or `sizes` and strided=True.'
        )

    # ---------------------------------------------------------------------------------- launches

    def _choose(self) -> Config | None:
        """The configuration of the call; None: the kernel has none."""
        d, call = self._d, self._call
        if not d.configs:
            return None
        asked = call.options.get(CONFIG)
        if asked is not None:
            number = self._saying(asked) if isinstance(asked, str) else integer(asked)
            if number is None or isinstance(asked, bool) or not 0 <= number < len(d.configs):
                raise ArgumentError(
                    f"{d.name}: config={asked!r:.80}. It has the configurations 0 to "
                    f"{len(d.configs) - 1}, of which the first is {d.configs[0]}."
                )
            return d.configs[number]
        allowed = [d.configs[number] for number in self.allowed()]
        by_text = {str(config): config for config in allowed}
        asked = Question(
            table=d.name,
            words=lambda: {"kernel": self._identity(), "key": configs.key_text(self.key())},
            sizes={},
            default=allowed[0],
            variants=lambda: allowed,
            read=by_text.get,
            source="the first of its configs",
        )
        return cast(Config, call.choose(asked))

    def _saying(self, text: str) -> int | None:
        """The first configuration of which this says a part (`BLOCK=64, num_warps=4`)."""
        wanted = {part.strip() for part in text.split(",")}
        found = (n for n, one in enumerate(self._d.configs) if wanted <= set(str(one).split(", ")))
        return next(found, None)

    def allowed(self) -> list[int]:
        """Numbers of the configurations that are not pruned."""
        d = self._d
        allowed = list(range(len(d.configs)))
        if d.prune is not None:
            prune = d.prune
            kept = self._ask.ask("prune", lambda c: list(prune(list(d.configs), c)))
            allowed = [n for config in kept for n in allowed if d.configs[n] == config]
            allowed = list(dict.fromkeys(allowed))
            if not allowed:
                raise ArgumentError(
                    f"{d.name}: its prune leaves no configuration for this call. Leave one."
                )
        return allowed

    def key(self) -> dict[str, Any]:
        """The values that decide which configuration is the fastest, by name."""
        found: dict[str, Any] = {}
        for name in self._d.key:
            value = self._ask.ask("key", operator.attrgetter(name))
            if isinstance(value, ArrayType):
                value = (value.dtype, *map(int, value.shape))
            found[name] = int(value) if type(value) is SymInt else value
        for name, array in self._inputs.arrays.items():
            found[f"{name}.dtype"] = None if array is None else array.dtype
        return found

    def _launches(self, function: Any) -> Iterator[Launch]:
        if self._d.grid is not None:
            yield self._launch(Step(function, self._d.grid))
            return
        given = self._ask.ask("launches", function)
        steps = (
            [given] if isinstance(given, Step) else self._ask.ask("launches", lambda c: list(given))
        )
        for step in steps:
            if not isinstance(step, Step):
                raise ArgumentError(
                    f"{self._d.name}: it gave {step!r:.80}, which is not a launch. Yield "
                    "xtarget.spec.step(function, grid)."
                )
            if not hasattr(step.function, "arg_names"):
                raise ArgumentError(
                    f"{self._d.name}: a step launches {step.function!r:.80}, which is not a "
                    "@triton.jit function."
                )
            yield self._launch(step)

    def _launch(self, step: Step) -> Launch:
        d, fn = self._d, step.function
        parameters = self._parameters_of(fn)
        args: dict[str, Argument] = {}
        constants: dict[str, Any] = {}
        for name in parameters.names:
            given = step.values[name] if name in step.values else self._named(fn, parameters, name)
            self._fill(name, given, name in parameters.constexpr, args, constants, fn)
        unknown = [name for name in step.values if name not in parameters.names]
        if unknown:
            raise ArgumentError(
                f"{d.name}: a step gives {unknown[0]}, which is not a parameter of {fn.__name__} "
                f"({place_of_function(fn)}): {', '.join(parameters.names)}."
            )
        described = self._descriptors.around(fn, parameters, args, constants)
        grid = step.grid if callable(step.grid) else (lambda c: step.grid)
        if isinstance(step.grid, str):
            grid = formula("grid", step.grid)
        config = self._config
        options = {**d.options, **(config.options if config else {}), **step.options}
        return Launch(
            source=self._source_of(fn if described is None else described),
            args=args,
            constants=constants,
            grid=self._ask.grid(grid),
            num_warps=self._number("num_warps", step, config),
            num_stages=self._number("num_stages", step, config),
            options=options,
            on_aligned=described is not None,
        )

    def _number(self, name: str, step: Step, config: Any) -> int:
        value = getattr(step, name)
        if value is None and config is not None:
            value = getattr(config, name)
        if value is None:
            value = getattr(self._d, name)
        if callable(value):
            value = self._ask.size(name, value)
        return cast(int, value) if type(value) is SymInt else operator.index(value)

    def _named(self, fn: Any, parameters: Parameters, name: str) -> Any:
        """The value that a parameter has by its name."""
        d = self._d
        if name in d.arrays or name in d.outputs or name in d.workspaces or name in d.scalars:
            return _Named(name)
        if name in self._context.__dict__ or name in self._context.__dict__["_rules"]:
            return self._ask.ask(f"parameter {name!r}", lambda c: getattr(c, name))
        if name in parameters.defaults:
            return parameters.defaults[name]
        raise ArgumentError(
            f"{d.name}: nothing says what the parameter {name!r} of {fn.__name__} is "
            f"({place_of(fn, name)}). Name it in inputs, outputs, workspaces, scalars, sizes, "
            "constants or flags, or give it in the step."
        )

    def _fill(
        self,
        name: str,
        given: Any,
        constexpr: bool,
        args: dict[str, Argument],
        constants: dict[str, Any],
        fn: Any,
    ) -> None:
        """Give a parameter its value."""
        given = getattr(given, "value", given) if type(given).__name__ == "constexpr" else given
        if isinstance(given, ArrayType):
            same = [n for n, known in self._all_arrays() if known is given]
            if not same:
                raise ArgumentError(
                    f"{self._d.name}: its step gives {name} of {fn.__name__} an array that is "
                    "none of the kernel's. Give one of them (c.x)."
                )
            given = _Named(same[0])
        if isinstance(given, _Named):
            argument = self._argument(given.name)
            if argument is None:
                constants[name] = None  # Triton leaves out what a kernel does with it
                return
            if constexpr:
                raise ArgumentError(
                    f"{self._d.name}: the parameter {name!r} of {fn.__name__} is a tl.constexpr "
                    f"({place_of(fn, name)}), and {given.name} is an array or a number of the "
                    "caller. Leave the annotation out, or make it one of constants or flags."
                )
            args[name] = argument
        elif constexpr or name in self._d.constants or not isinstance(given, int | float):
            # a heuristic may say another element type than the caller
            dtype = name in self._inputs.dtypes and isinstance(given, str) and given in DTYPES
            constants[name] = DtypeConstant(str(given)) if dtype else constant_of(given)
            if not is_constant(constants[name]):
                raise ArgumentError(
                    f"{self._d.name}: the parameter {name!r} of {fn.__name__} gets "
                    f"{given!r:.80}, which is neither a number nor a constant."
                )
        else:
            args[name] = given

    def _all_arrays(self) -> Iterator[tuple[str, ArrayType]]:
        d = self._d
        for name in (*d.arrays, *d.outputs, *d.workspaces):
            array = getattr(self._context, name)
            if array is not None:
                yield name, array

    def _argument(self, name: str) -> Argument | None:
        """An array or a number of the kernel in a launch; None: an array that was left out."""
        d = self._d
        if name in d.outputs:
            return Output(list(d.outputs).index(name))
        if name in d.workspaces:
            return Temporary(list(d.workspaces).index(name))
        if name in self._inputs.given:
            return Input(d.order.index(name))
        if name in d.arrays:
            return None
        default = d.scalars[name]
        if default is None or default is REQUIRED:
            if default is REQUIRED:
                raise ArgumentError(f"{d.name} needs {name}, a number: it has no default. Give it.")
            return None
        dtypes = [array.dtype for array in self._inputs.arrays.values() if array is not None]
        default = float(default) if d.kinds.get(name) is float else default
        return Scalar(default, natural_scalar(default, dtypes))


def _missing(kernel: str, length: str, array: str) -> None:
    raise ArgumentError(
        f"{kernel}: {length} is a length of {array}, which was left out. Give {array}."
    )


def _decided(heuristic: Heuristic, flag: Any, is_dtype: bool, context: Any) -> Any:
    answer = constant_of(heuristic(context, flag))
    # as rules see flags: element types by their names
    return answer.name if is_dtype and isinstance(answer, DtypeConstant) else answer


class _Named:
    """An array or a number of the kernel, by its name."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


#: Gives new arrays their layouts.
_UNCALLED: Final = Call("", (), {}, None, "", 0, None)  # type: ignore[arg-type]  # no rules: it is never asked
