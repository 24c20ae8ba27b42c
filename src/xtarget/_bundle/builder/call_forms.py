"""The forms in which a bundle's kernels can be called without Python (`_bundle.calls`).

A plan is run on symbols, as launches in Python do it (`_launch.classes`): sizes, strides, and the
device's compute units as well. What it compares is the guards of a form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..._kernels import libraries
from ..._kernels.asked_choices import as_text
from ..._kernels.libraries import RegisteredKernel
from ..._launch import planning
from ..._launch.classes import lift
from ..._launch.specializing import Slot, requests
from ..._launch.staging import pattern_of
from ..._system.signals import raised_by_handler
from ..._values.choosing import CONFIG
from ..._values.programs import Flat, Program
from ..._values.symbols import SymInt, Tracer, peek
from ..._values.types import DTYPES, Artifact, CompileRequest, Constant, DtypeConstant, Target
from ..._values.value_classes import value_class
from ..._values.vendors import traits
from ...spec import ABSENT, ArrayType, Launch, Plan, ScalarType
from ...targets._binaries.spirv import read_entry_points
from ...targets._objects.scalars import PACK
from ...targets._objects.tensor_maps import map_of
from ..calls import (
    Binary,
    BinaryParameter,
    CallRecord,
    Form,
    FormArgument,
    FormLaunch,
    FormOutput,
    Function,
    LaunchParameter,
)
from . import classes
from .classes import BuiltCall, Class, KnownCall, cases, relaid
from .option_texts import option_text, option_texts
from .unread import unread

__all__ = ["call_records"]

#: A binary with all that its request says of it.
Made = tuple[CompileRequest, Artifact]
_Layout = ArrayType | ScalarType
#: Plans that are traced for a kernel and dtype, some 5 ms each: matmul has 570 forms, most of them
#: for other numbers of compute units.
_MOST_TRACED = 128
#: Characters of a function's signature; a text of a record has up to 65,535.
_MOST_SIGNATURE = 32_000


def call_records(
    kernels: Iterable[str],
    dtypes: Sequence[str],
    target: Target,
    made: Iterable[tuple[Class, CompileRequest, Artifact]],
    *,
    calls: Iterable[KnownCall] = (),
    views: bool,
    full: bool,
    incomplete: Callable[[str], None],
) -> list[CallRecord]:
    """How each kernel is called on each dtype, with the binaries that there are.

    Args:
        made: every binary of the bundle's section, with its class.
        calls: of these, those of a caller have a record each.
        incomplete: told of kernels of which not every call that is built for has a form.
    """
    there: dict[tuple[str, ...], list[Made]] = {}
    for one, request, artifact in made:
        there.setdefault(_code(one.source, request), []).append((request, artifact))
    found = []
    known = [libraries.find(name) for name in kernels]
    for kernel in {one.spec.name: one for one in known}.values():  # aliases are one kernel
        for dtype in dtypes:
            if dtype in kernel.spec.dtypes and not any(n is not None for n in kernel.spec.counts):
                forms = _Forms(kernel, target, there)
                for example, args, out in cases(kernel.spec, dtype, views=views, full=full):
                    options = {**kernel.spec.options, **example.options}
                    for units in classes.COMPUTE_UNITS:
                        given: tuple[_Layout, ...] = ()
                        if out != "C":
                            plan = BuiltCall(kernel, target, example, args, out).plan(units, ())
                            if plan is None or len(plan.outputs) != 1:
                                continue
                            given = (relaid(plan.outputs[0], out),)
                        forms.add(args, options, given, units)
                    if out == "C":
                        for more in _alike(kernel, args):
                            forms.add(more, options, (), classes.COMPUTE_UNITS[-1])
                        if kernel.spec.elementwise and views:
                            units = classes.COMPUTE_UNITS[-1]
                            plan = BuiltCall(kernel, target, example, args).plan(units, ())
                            for given in _outputs(plan):
                                forms.add(args, options, given, units)
                if forms.unread:
                    incomplete(
                        f"{kernel.spec.name} of {dtype} for {target}: its plan never looks at the "
                        f"lengths of {', '.join(forms.unread)}, and what it launches may read "
                        "beyond them. C calls it with the lengths of its examples only. Compare "
                        "them in the plan, and it takes others."
                    )
                if forms.refused:
                    incomplete(
                        f"{kernel.spec.name} of {dtype} for {target}: {len(forms.forms)} forms of "
                        f"calls from C, after {_MOST_TRACED} plans; {forms.refused} more calls "
                        "were not looked at. Python calls them."
                    )
                if forms.forms:
                    found.append(forms.record(dtype))
    for call in calls:
        if call.caller is not None:
            kernel = libraries.find(call.kernel)
            forms = _Forms(kernel, target, there)
            given = () if call.caller.out is None else (call.caller.out,)
            options = {**kernel.spec.options, **dict(call.options)}
            forms.add(call.args, options, given, call.caller.units)
            for more in _alike(kernel, call.args) if not given else ():
                forms.add(more, options, (), call.caller.units)
            if forms.forms:
                found.append(forms.record(call.caller.dtype))
    return found


def _alike(kernel: RegisteredKernel, args: Sequence[_Layout]) -> Iterator[Sequence[_Layout]]:
    """Calls that the same binaries may serve, beside those that the bundle was built for: arrays of
    one dimension, in whose place libxtarget gives all contiguous ones of one shape, numbers in the
    place of arrays, and views."""
    arrays = [t for t in args if isinstance(t, ArrayType)]
    if not kernel.spec.elementwise or not arrays:
        return
    if len({t.shape for t in arrays}) == 1 and all(t.contiguous for t in arrays):
        for length in (1, 7, arrays[0].size):
            yield [
                ArrayType(t.dtype, (length,), (1,)) if isinstance(t, ArrayType) else t for t in args
            ]
    if len(arrays) == len(args) > 1:
        for number in range(len(args)):
            yield [ScalarType(t.dtype) if n == number else t for n, t in enumerate(arrays)]
    if len({t.shape for t in arrays}) == 1 and all(t.contiguous for t in arrays):
        for number, type_ in enumerate(args):
            for view in _views(type_) if isinstance(type_, ArrayType) else ():
                yield [view if n == number else t for n, t in enumerate(args)]


def _views(type_: ArrayType) -> Iterator[ArrayType]:
    """In an array's place: it from its end, and a row for each row of a matrix."""
    yield replace(type_, strides=tuple(-step for step in type_.strides))
    if type_.ndim == 2:
        columns = type_.shape[1]
        yield replace(type_, strides=(columns, -1))
        yield replace(type_, strides=(-columns, 1))
        yield replace(type_, strides=(0, 1))
        yield ArrayType(type_.dtype, (1, columns), (columns, 1))
        yield ArrayType(type_.dtype, (columns,), (1,))


def _outputs(plan: Plan | None) -> Iterator[tuple[_Layout, ...]]:
    """Layouts of a result that the binaries for transposed arguments may serve: it transposed, and
    from its end."""
    if plan is None or len(plan.outputs) != 1:
        return
    (result,) = plan.outputs
    yield (relaid(result, "T"),)
    yield (replace(result, strides=tuple(-step for step in result.strides)),)


def _code(source: str, request: CompileRequest) -> tuple[str, ...]:
    """The facts that decide a binary within one build, without the alignment."""
    return (
        source, repr(request.signature), repr(request.constants), str(request.num_warps),
        str(request.num_stages), repr(request.options),
    )  # fmt: skip


@value_class(frozen=True, slots=True)
class _Kept:
    """The form of a traced plan, or none, and the sizes for which it holds."""

    signature: tuple[Any, ...]
    holds: Program


class _Forms:
    """The forms of one kernel, each once."""

    def __init__(
        self,
        kernel: RegisteredKernel,
        target: Target,
        there: Mapping[tuple[str, ...], list[Made]],
    ) -> None:
        self.kernel, self.target, self.there = kernel, target, there
        self.forms: list[Form] = []
        self._kept: list[_Kept] = []
        self._functions: dict[tuple[str, ...], int] = {}
        self._made: list[Function] = []
        self._traced = 0
        #: Inputs of whose lengths a plan looks at none: calls have those that were built for.
        self.unread: dict[str, None] = {}
        #: Calls that were left because enough plans were traced.
        self.refused = 0

    def record(self, dtype: str) -> CallRecord:
        spec = self.kernel.spec
        names = [name.rstrip("?") for name in spec.inputs]
        return CallRecord(
            kernel=spec.name,
            dtype=dtype,
            elementwise=spec.elementwise,
            inputs=tuple(
                (name, name in spec.updates, written.endswith("?"))
                for name, written in zip(names, spec.inputs, strict=True)
            ),
            defaults=tuple(
                (n, t) for n, v in sorted(spec.options.items()) if (t := option_text(v))
            ),
            functions=tuple(self._made),
            forms=tuple(self.forms),
        )

    def add(
        self,
        args: Sequence[_Layout],
        options: Mapping[str, Any],
        given: Sequence[_Layout],
        units: int,
    ) -> None:
        """Note the form that serves a call, if none does.

        Args:
            given: the layout of a result that is not a new array.
        """
        if CONFIG in options:
            options = {**options, CONFIG: as_text(self.kernel.spec.name, options[CONFIG])}
        texts = option_texts(options)
        if texts is None:
            return
        contiguous = [not isinstance(t, ArrayType) or t.contiguous for t in args]
        contiguous += [False] * len(given)  # its strides are symbols, whatever they are
        signature = (
            texts, tuple(contiguous), len(given),
            tuple(("s", t.dtype) if isinstance(t, ScalarType) else (t.dtype, t.ndim) for t in args),
        )  # fmt: skip
        sizes = [units]
        for type_, packed in zip((*args, *given), contiguous, strict=True):
            if isinstance(type_, ArrayType):
                sizes += [*type_.shape, *(() if packed else type_.strides)]
        for kept in self._kept:
            if kept.signature == signature and kept.holds(sizes) is not None:
                return
        if self._traced >= _MOST_TRACED:
            self.refused += 1
            return
        self._traced += 1
        try:
            self._trace(args, options, texts, given, contiguous, units, signature)
        except Exception as error:  # a plan may do what only numbers can
            if raised_by_handler(error) is not None:
                raise

    def _trace(
        self,
        args: Sequence[_Layout],
        options: Mapping[str, Any],
        texts: tuple[tuple[str, str], ...],
        given: Sequence[_Layout],
        contiguous: Sequence[bool],
        units: int,
        signature: tuple[Any, ...],
    ) -> None:
        kernel, tracer = self.kernel, Tracer()
        count = tracer.symbol("compute_units", units, least=1)
        packed = iter(contiguous)

        def lifted(type_: _Layout, name: str) -> _Layout:
            whole = next(packed)
            return lift(tracer, name, type_, whole) if isinstance(type_, ArrayType) else type_

        types = [lifted(type_, f"arg{n}") for n, type_ in enumerate(args)]
        outs = [lifted(type_, "out") for type_ in given]
        call = planning.call_of(
            kernel, types, options, self.target, count, local=False, general=True
        )
        if outs:
            assert isinstance(outs[0], ArrayType)
            call = replace(call, out=outs[0])
        plan = planning.make_plan(kernel, call)
        for place in unread(plan, types, tracer):
            type_ = types[place]
            assert isinstance(type_, ArrayType)
            for length in type_.shape:
                tracer.equal(length, peek(length))
            self.unread.setdefault(kernel.spec.inputs[place].rstrip("?"))
        # libxtarget chooses among a class's binaries by what is aligned: no guards on that
        plain = replace(plan, launches=tuple(replace(one, aligned_by=()) for one in plan.launches))
        reached = requests(kernel, plain, types, [True] * len(types), [True] * len(outs))
        results: list[Any] = []
        for type_ in plan.outputs if not outs else ():
            results += [*type_.shape, *type_.strides]
        results += [temporary.size * temporary.itemsize for temporary in plan.temporaries]
        launches = []
        for launch, request, slots in reached:
            number = self._function(launch, request, slots)
            if number is None:  # nor is there one for other sizes that pass the same guards
                self._kept.append(_Kept(signature, tracer.compile(())))
                return
            results += launch.grid
            launches.append(FormLaunch(number, self._parameters(request, slots, results)))
        program = tracer.program(tuple(results))
        flat: Flat | None = program.flat()
        if flat is None:
            return
        form = Form(
            options=texts,
            arguments=tuple(map(_argument, types, contiguous)),
            outputs=tuple(
                FormOutput(type_.dtype, type_.ndim, bool(outs), self._fill(plan.init, n, type_))
                for n, type_ in enumerate(plan.outputs)
            ),
            program=flat,
            temporaries=tuple(
                self._fill(plan.cleared, n, type_) for n, type_ in enumerate(plan.temporaries)
            ),
            launches=tuple(launches),
        )
        self.forms.append(form)
        self._kept.append(_Kept(signature, program.function()))

    def _fill(self, values: Sequence[Any], number: int, type_: ArrayType) -> bytes | None:
        value = values[number] if number < len(values) else None
        if value is None:
            return None
        return pattern_of(self.kernel.spec.name, number, value, ArrayType(type_.dtype, (1,), (1,)))

    def _parameters(
        self, request: CompileRequest, slots: Mapping[str, Slot], results: list[Any]
    ) -> tuple[LaunchParameter, ...]:
        types, found = _types(request), []
        for name, slot in slots.items():
            if slot.index is not None:
                found.append(LaunchParameter("value", slot.index))
                continue
            value: Any = slot.value
            if type(value) is SymInt:
                found.append(LaunchParameter("size"))
                results.append(value)
            else:
                bits = PACK[types[name]](value)
                found.append(LaunchParameter("fixed", int.from_bytes(bits, "little")))
        return tuple(found)

    def _function(
        self, launch: Launch, request: CompileRequest, slots: Mapping[str, Slot]
    ) -> int | None:
        """The number of the class of a launch; None: nothing of it can be launched from C."""
        code = _code(launch.source, request)
        # names decide the order of the slots, which equal code may have another way round
        key = (*code, *slots)
        if key not in self._functions:
            binaries = [_binary(*made, list(slots)) for made in self.there.get(code, ())]
            usable = tuple(one for one in binaries if one is not None)
            if not usable:
                return None
            self._functions[key] = len(self._made)
            signature = _signature(request, list(slots))
            self._made.append(Function(launch.source, len(slots), usable, signature))
        return self._functions[key]


def _types(request: CompileRequest) -> dict[str, Any]:
    """The type of each parameter, of tuples that of each element."""
    types: dict[str, Any] = {}
    for name, type_ in request.signature:
        if isinstance(type_, tuple):
            types |= {f"{name}.{n}": each for n, each in enumerate(type_)}
        else:
            types[name] = type_
    return types


def _signature(request: CompileRequest, slots: Sequence[str]) -> str:
    """The lines behind the name of a function's source; nothing where slots have no type of
    Triton's, or constants are very long."""
    types = _types(request)
    if not all(isinstance(types.get(name), str) for name in slots):
        return ""
    lines = [f"{request.num_warps} {request.num_stages}"]
    lines += [f"{name} {types[name]}" for name in slots]
    lines += [f"{name} constexpr {_constant(value)}" for name, value in request.constants]
    text = "\n".join(["", *lines])
    return text if len(text) <= _MOST_SIGNATURE else ""


def _constant(value: Constant) -> str:
    """JSON, and a dtype as Triton calls it."""
    if isinstance(value, DtypeConstant):
        return DTYPES[value.name].triton
    if isinstance(value, tuple):
        return f"[{','.join(map(_constant, value))}]"
    return json.dumps(value)


def _argument(type_: _Layout, contiguous: bool) -> FormArgument:
    if type_ is ABSENT:
        return FormArgument("absent")
    if isinstance(type_, ScalarType):
        return FormArgument("scalar", type_.dtype)
    return FormArgument("array", type_.dtype, type_.ndim, contiguous)


def _binary(request: CompileRequest, made: Artifact, slots: list[str]) -> Binary | None:
    """A variant; None for one that needs memory or a launch that libxtarget does not give."""
    scratch = made.global_scratch.nbytes or made.profile_scratch.nbytes
    if scratch or made.cluster > 1 or made.cooperative or made.format == "cl":
        return None
    if any(p.hidden == "assert_memory" or map_of(p.type) is not None for p in made.parameters):
        return None
    taken = ["pointer"] * len(made.parameters)
    if made.format == "spirv":
        (entry,) = [one for one in read_entry_points(made.binary) if one.name == made.entry]
        taken = list(entry.parameters)
    parameters = []
    for parameter, how in zip(made.parameters, taken, strict=True):
        if parameter.hidden is None and parameter.name not in slots:
            return None
        parameters.append(
            BinaryParameter(
                type=parameter.type,
                slot=-1 if parameter.hidden is not None else slots.index(parameter.name),
                aligned=parameter.name in request.aligned,
                pointer=parameter.is_pointer and how == "pointer",
            )
        )
    rules = traits(made.target.vendor).arch_rules
    portable = None if rules is None else rules.portable(made.texts)
    oldest = None if portable is None else portable.oldest
    return Binary(
        entry=made.entry,
        threads=made.block[0],
        shared_bytes=made.shared_bytes,
        specific=portable is not None and oldest is None,
        parameters=tuple(parameters),
        binary=made.binary,
        portable=portable.text.encode() if portable is not None and oldest is not None else None,
        portable_arch=oldest or "",
    )
