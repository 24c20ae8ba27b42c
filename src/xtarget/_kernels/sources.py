"""Analyse the Triton files of a kernel library without importing them.

A file is static if its text, with the text of the library's files that it imports, says all that a
kernel can read: `@triton.jit` functions, and constants that are written out. A binary of such a
file is filed under the text, so Triton is not needed to find it again. Anything else (a value from
the environment, from a data file or from another package) is known only after the import, by
`targets._triton.identity`.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from .._system import files
from .._values.errors import XTargetError
from ..targets._host import contents
from ..targets._triton.value_kinds import PURE, is_pure
from .kernel_files import KernelFile, parsed

__all__ = ["read_kernel_file"]

#: What Triton has beside its language that a static file may name: functions of its text alone.
_OF_TRITON = frozenset(("cdiv", "constexpr", "jit", "language", "next_power_of_2"))
#: Where Triton keeps what kernels are written in, Gluon's among it.
_LANGUAGES = ("triton.language", "triton.experimental.gluon.language")
_GLUON = "triton.experimental.gluon"
_CALLS = frozenset(("abs", "bool", "float", "int", "len", "max", "min", "str", "tuple"))
_OPERATORS = (
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod),
    *(ast.LShift, ast.RShift, ast.BitOr, ast.BitAnd, ast.BitXor),
)
#: Bytes of a Triton file that are read.
_MOST = 64 << 20


def read_kernel_file(folder: Path, name: str) -> KernelFile:
    """Read a Triton file of a library, and what it imports of the library.

    Raises:
        XTargetError: there is no such file.
        CompileError: it is not valid Python.
    """
    texts: dict[str, tuple[Path, bytes]] = {}
    dynamic: list[str] = []
    todo = [name]
    while todo:
        module = todo.pop(0)
        if module in texts:
            continue
        path = _path(folder, module)
        try:
            text = files.read_regular(path, _MOST)
        except OSError as error:
            raise XTargetError(
                f"the kernel library has no file {path.name} in {path.parent} ({error.strerror}). "
                "Correct `source` in its catalog."
            ) from error
        texts[module] = path, text
        imports, unknown = _read(folder, module, path, text)
        todo += imports
        dynamic += unknown
    return KernelFile(name, texts, dynamic[0] if dynamic else "")


def _path(folder: Path, module: str) -> Path:
    inner = folder.joinpath(*module.split("."))
    package = inner / "__init__.py"
    return package if package.is_file() else inner.with_name(inner.name + ".py")


def _read(folder: Path, module: str, path: Path, text: bytes) -> tuple[list[str], list[str]]:
    """Return the modules of the library that a file imports, and what its text does not say.

    Parsing takes milliseconds. So the result is remembered, for the file's content and for the
    answers about the files beside it.
    """

    name = f"kernel file {path} {module}"
    content = hashlib.sha256(text).hexdigest()
    signature = f"{content} {sys.version_info[:3]} {contents.of_file(__file__)}"
    known = contents.known(name, signature)
    if known is not None:
        with contextlib.suppress(ValueError, TypeError, AttributeError):
            imports, dynamic, answers = json.loads(known)
            if all(_is_true_here(folder, q) == answer for q, answer in answers.items()):
                return imports, dynamic
    reader = _Reader(folder, module, path)
    reader.read(parsed(text, path))
    told = json.dumps([reader.imports, reader.dynamic, reader.asked])
    contents.remember(name, signature, told)
    return reader.imports, reader.dynamic


def _marked_builtin(node: ast.stmt) -> str:
    """The NAME of `NAME.__triton_builtin__ = True`, which makes a function one of Triton's.

    Such a function runs while a kernel that calls it compiles."""
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return ""
    target = node.targets[0]
    if not isinstance(target, ast.Attribute) or target.attr != "__triton_builtin__":
        return ""
    marks = isinstance(node.value, ast.Constant) and node.value.value is True
    return target.value.id if marks and isinstance(target.value, ast.Name) else ""


def _is_true_here(folder: Path, question: str) -> bool:
    """Answer a reader's question about the machine.

    The question is whether a module is a file or a folder of the library, or whether a name leads
    to one of Python's own modules."""
    kind, _, name = question.partition(" ")
    if kind == "file":
        return _path(folder, name).is_file()
    if kind == "folder":
        return folder.joinpath(*name.split(".")).is_dir()
    return is_pure(name)


class _Reader:
    """Looks through one file.

    Attributes:
        imports: modules of the library that it imports.
        dynamic: what its text alone does not say.
        asked: the questions about the machine that the result depends on (`_is_true_here`).
    """

    def __init__(self, folder: Path, module: str, path: Path) -> None:
        self._folder, self._path = folder, path
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        self._package = package.split(".") if package else []
        #: What names of the file are: the language's module, Triton itself, or of this library.
        self._names: dict[str, str] = {}
        self.imports: list[str] = []
        self.dynamic: list[str] = []
        self.asked: dict[str, bool] = {}
        self._builtins: set[str] = set()

    def _ask(self, question: str) -> bool:
        if question not in self.asked:
            self.asked[question] = _is_true_here(self._folder, question)
        return self.asked[question]

    def read(self, tree: ast.Module) -> None:
        self._builtins = {name for node in tree.body if (name := _marked_builtin(node))}
        for node in tree.body:
            self._statement(node)
        for node in tree.body:  # by now every name of the file is known
            if isinstance(node, ast.FunctionDef):
                self._names_in(node)
        for inner in ast.walk(tree):  # imports that run later are texts as well
            if isinstance(inner, ast.ImportFrom) and inner not in tree.body:
                self._from(inner)
            elif isinstance(inner, ast.Import) and inner not in tree.body:
                self._import(inner)

    def _unknown(self, node: ast.AST, what: str) -> None:
        line = getattr(node, "lineno", 0)
        self.dynamic.append(f"{self._path}:{line} {what}")

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Import):
            self._import(node)
        elif isinstance(node, ast.ImportFrom):
            self._from(node)
        elif isinstance(node, ast.FunctionDef):
            self._function(node)
        elif _marked_builtin(node):
            pass  # `_function` looks at what it marks
        elif isinstance(node, ast.Assign):
            targets = [t.id for t in node.targets if isinstance(t, ast.Name)]
            if len(targets) != len(node.targets) or not self._is_static(node.value):
                self._unknown(node, f"computes {ast.unparse(node)[:60]} when it is imported")
            self._names.update(dict.fromkeys(targets, "own"))
        elif isinstance(node, ast.AnnAssign):
            static = node.value is None or self._is_static(node.value)
            if not isinstance(node.target, ast.Name) or not static:
                self._unknown(node, f"computes {ast.unparse(node)[:60]} when it is imported")
            else:
                self._names[node.target.id] = "own"
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            self._unknown(node, f"runs {ast.unparse(node)[:60]!r} when it is imported")

    # --------------------------------------------------------------------------------- imports

    def _import(self, node: ast.Import) -> None:
        for alias in node.names:
            root, bound = alias.name.partition(".")[0], alias.asname or alias.name
            if root == "triton":
                within = alias.name.startswith("triton.language")
                if alias.asname is None:
                    self._names["triton"] = "triton"
                elif within or alias.name == "triton":
                    self._names[bound] = "tl" if within else "triton"
                else:
                    self._unknown(node, f"imports {alias.name}")
            elif root in PURE and self._ask(f"pure {root}"):
                self._names[bound.partition(".")[0]] = "pure"
            elif (
                root in sys.stdlib_module_names and root not in PURE
            ):  # harmless where no kernel and no constant has it
                self._names[bound.partition(".")[0]] = "outside"
            else:
                self._unknown(node, f"imports {alias.name}, which is not of this library")

    def _from(self, node: ast.ImportFrom) -> None:
        if node.level:
            self._from_here(node)
            return
        module = node.module or ""
        root = module.partition(".")[0]
        for alias in node.names:
            bound = alias.asname or alias.name
            if module == "triton.experimental" and alias.name == "gluon":
                self._names[bound] = "triton"
            elif module.startswith(_LANGUAGES):
                self._names[bound] = "constexpr" if alias.name == "constexpr" else "tl"
            elif module in ("triton", _GLUON) and alias.name in _OF_TRITON:
                self._names[bound] = {"language": "tl"}.get(alias.name, alias.name)
            elif root in PURE and alias.name != "*" and self._ask(f"pure {root}"):
                self._names[bound] = "pure"
            elif root in sys.stdlib_module_names and root not in PURE and alias.name != "*":
                self._names[bound] = "outside"
            else:
                self._unknown(node, f"imports {alias.name} of {module}, not of this library")

    def _from_here(self, node: ast.ImportFrom) -> None:
        up = node.level - 1
        if up > len(self._package):
            self._unknown(node, "imports from outside of its library")
            return
        base = self._package[: len(self._package) - up] + (node.module or "").split(".")
        parts = [part for part in base if part]
        for length in range(1, len(parts) + 1):  # packages run before what is in them
            inner = ".".join(parts[:length])
            if self._ask(f"file {inner}"):
                self.imports.append(inner)
            elif length == len(parts) and not self._ask(f"folder {inner}"):
                self._unknown(node, f"imports {inner}, of which the library has no file")
        for alias in node.names:
            inner = ".".join([*parts, alias.name])
            if alias.name != "*" and self._ask(f"file {inner}"):
                self.imports.append(inner)
            elif not parts:
                self._unknown(node, f"imports {alias.name}, of which the library has no file")
            if alias.name == "*":
                self._unknown(node, "imports *")
            self._names[alias.asname or alias.name] = "own"

    # ------------------------------------------------------------------------------- functions

    def _function(self, node: ast.FunctionDef) -> None:
        self._names[node.name] = "own"
        if node.name in self._builtins and not node.decorator_list:
            if not self._is_of_the_language(node):
                self._unknown(node, f"defines the builtin {node.name}, which reads other names")
        elif not node.decorator_list or not all(map(self._is_jit, node.decorator_list)):
            self._unknown(node, f"defines {node.name}, which is not a plain @triton.jit function")
        arguments = node.args
        for default in (*arguments.defaults, *arguments.kw_defaults):
            if default is not None and not self._is_static(default):
                self._unknown(default, f"computes a default of {node.name} when it is imported")

    def _is_of_the_language(self, node: ast.FunctionDef) -> bool:
        """Check whether a builtin reads its parameters, its own names and the language only."""
        arguments = node.args
        own = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        names = [inner for inner in ast.walk(node) if isinstance(inner, ast.Name)]
        own |= {name.id for name in names if isinstance(name.ctx, ast.Store)}
        return all(name.id in own or self._names.get(name.id) == "tl" for name in names)

    def _names_in(self, node: ast.FunctionDef) -> None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and self._names.get(inner.id) == "outside":
                self._unknown(inner, f"reads {inner.id} in {node.name}")
            if not isinstance(inner, ast.Attribute) or not isinstance(inner.value, ast.Name):
                continue
            kind = self._names.get(inner.value.id)
            if kind == "triton" and inner.attr not in _OF_TRITON:
                self._unknown(inner, f"reads {ast.unparse(inner)} in {node.name}")

    def _is_jit(self, node: ast.expr) -> bool:
        """Check whether a decorator is `triton.jit`, or a call of it with literal options."""
        if isinstance(node, ast.Call):
            options = all(isinstance(k.value, ast.Constant) for k in node.keywords)
            return not node.args and options and self._is_jit(node.func)
        if isinstance(node, ast.Name):
            return self._names.get(node.id) == "jit"
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and self._names.get(node.value.id) == "triton"
            and node.attr == "jit"
        )

    # ------------------------------------------------------------------------------ expressions

    def _is_static(self, node: ast.expr) -> bool:
        """Check whether the text of an expression alone defines its value."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return all(map(self._is_static, node.elts))
        if isinstance(node, ast.Starred):  # in one of these
            return self._is_static(node.value)
        if isinstance(node, ast.Dict):
            keys = [key for key in node.keys if key is not None]
            return len(keys) == len(node.keys) and all(map(self._is_static, [*keys, *node.values]))
        if isinstance(node, ast.UnaryOp):
            return self._is_static(node.operand)
        if isinstance(node, ast.BinOp):
            both = self._is_static(node.left) and self._is_static(node.right)
            if isinstance(node.op, ast.Pow):  # of floats it is the C library's
                return all(
                    isinstance(n, ast.Constant) and type(n.value) is int
                    for n in (node.left, node.right)
                )
            return both and isinstance(node.op, _OPERATORS)
        if isinstance(node, ast.Name):
            return self._names.get(node.id) in ("own", "tl", "pure")
        if isinstance(node, ast.Attribute):
            return self._is_constant_of_a_module(node)
        return isinstance(node, ast.Call) and self._is_static_call(node)

    def _is_constant_of_a_module(self, node: ast.Attribute) -> bool:
        if isinstance(node.value, ast.Attribute):  # triton.language.float32
            inner = node.value
            return (
                isinstance(inner.value, ast.Name)
                and self._names.get(inner.value.id) == "triton"
                and inner.attr == "language"
            )
        return isinstance(node.value, ast.Name) and self._names.get(node.value.id) in (
            "own",
            "tl",
            "pure",
        )

    def _is_static_call(self, node: ast.Call) -> bool:
        """`tl.constexpr(...)`, and a few of Python's own functions."""
        values: list[Any] = [*node.args, *(k.value for k in node.keywords)]
        if any(isinstance(v, ast.Starred) for v in values) or not all(map(self._is_static, values)):
            return False
        if isinstance(node.func, ast.Name):
            kind = self._names.get(node.func.id)
            return kind == "constexpr" or (kind is None and node.func.id in _CALLS)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "constexpr":
            return False
        module = node.func.value
        if isinstance(module, ast.Attribute):
            return self._is_constant_of_a_module(node.func)
        return isinstance(module, ast.Name) and self._names.get(module.id) == "tl"
