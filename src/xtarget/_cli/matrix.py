"""`xtarget ci matrix`: from the vendor matrix as data (ci/matrix.toml) to a CI runner's JSON."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from .._values.errors import ArgumentError

__all__ = ["job_matrix", "read_matrix"]

_TEXT, _TEXTS = "text", "list of texts"
_FIELDS = {
    "name": _TEXT,
    "vendor": _TEXT,
    "arch": _TEXT,
    "runner": _TEXTS,
    "python": _TEXTS,
    "extras": _TEXTS,
    "tiers": _TEXTS,
    "hosted": "true or false",
    "scheduled": "true or false",
    "timeout_minutes": "whole number",
}


def _fits(value: object, kind: str) -> bool:
    if kind == _TEXT:
        return isinstance(value, str) and bool(value)
    if kind == _TEXTS:
        return isinstance(value, list) and bool(value) and all(_fits(v, _TEXT) for v in value)
    if kind == "true or false":
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool)


def _find(file: str | None) -> Path:
    if file is not None:
        return Path(file)
    checkout = Path(__file__).resolve().parents[3]
    for folder in (Path.cwd(), checkout):
        if (folder / "ci" / "matrix.toml").is_file():
            return folder / "ci" / "matrix.toml"
    raise ArgumentError(
        f"there is no ci/matrix.toml in {Path.cwd()} or {checkout}. Run this in a checkout, or "
        "name the file with --file."
    )


def read_matrix(file: str | None = None) -> dict[str, Any]:
    """The matrix file, checked.

    Raises:
        ArgumentError: it cannot be read, or a job lacks a field or has one too many.
    """
    path = _find(file)
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"{path} cannot be read as TOML: {error}") from error
    jobs = data.get("job")
    if not isinstance(jobs, list) or not jobs:
        raise ArgumentError(f"{path} has no [[job]].")
    for number, job in enumerate(jobs, 1):
        which = f"{path}, job {number} ({job.get('name', 'without a name')})"
        for name in (*_FIELDS, *(n for n in job if n not in _FIELDS)):
            if name not in _FIELDS:
                raise ArgumentError(
                    f"{which}: {name} is not a field of a job; there are {', '.join(_FIELDS)}."
                )
            if name not in job:
                raise ArgumentError(f"{which}: {name} is missing.")
            if not _fits(job[name], _FIELDS[name]):
                raise ArgumentError(f"{which}: {name} = {job[name]!r} should be {_FIELDS[name]}.")
    names = [job["name"] for job in jobs]
    if len(set(names)) != len(names):
        raise ArgumentError(f"{path}: two jobs have the same name; the names are {names}.")
    return data


def job_matrix(
    file: str | None = None, *, hosted_only: bool = False, scheduled: bool = False
) -> dict[str, Any]:
    """The runner's matrix: one entry for each job and Python version.

    Args:
        scheduled: with the jobs that run by the clock only.
    """
    include = []
    for job in read_matrix(file)["job"]:
        if (hosted_only and not job["hosted"]) or (job["scheduled"] and not scheduled):
            continue
        for python in job["python"]:
            several = len(job["python"]) > 1
            include.append(
                {
                    **job,
                    "name": f"{job['name']} py{python}" if several else job["name"],
                    "python": python,
                    "extras": ",".join(job["extras"]),
                    "tiers": ",".join(job["tiers"]),
                }
            )
    return {"include": include}
