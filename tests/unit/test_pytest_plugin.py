"""xtarget's pytest plugin and `assert_close`, as the tests of somebody's kernels use them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from processes import run_python

import xtarget.testing

ROOT = Path(__file__).resolve().parents[2]
TEST = """
import numpy as np
import pytest
import xtarget

def test_where(xtarget_device):
    assert xtarget.device(xtarget_device).info.name == xtarget_device

@pytest.mark.xtarget_vendors("nvidia", reason="it has tensor cores")
def test_tensor_cores(xtarget_device):
    raise AssertionError("not on this device")
"""


def pytest_in(folder: Path, *words: str, text: str = TEST) -> tuple[int, str]:
    """Run pytest in a folder with the fake vendor's device and no other option of ours."""
    (folder / "test_kernels.py").write_text(text)
    path = f"{ROOT / 'src'}:{ROOT / 'tests' / 'fake_vendor'}"
    plugin = ("-p", "xtarget.pytest_plugin", "-p", "no:cacheprovider")
    done = run_python(
        "-m", "pytest", "-rs", *plugin, *words, str(folder), path=path, seconds=120, PYTHONPATH=path
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def fake() -> str:
    sys.path.insert(0, str(ROOT / "tests" / "fake_vendor"))
    return "fake:0"


def test_a_test_runs_on_the_device_that_was_named(tmp_path: Path, fake: str) -> None:
    code, out = pytest_in(tmp_path, "--xtarget-device", fake)
    assert code == 0, out
    assert f"{fake} (" in out.partition("collected")[0]  # the header
    assert "1 passed, 1 skipped" in out
    assert "it has tensor cores" in out
    assert "what the tests ran on" in out


def test_a_vendor_is_its_first_device_and_each_device_is_a_run(tmp_path: Path, fake: str) -> None:
    code, out = pytest_in(tmp_path, "--xtarget-device", f"fake,{fake},nvidia:77", "-v")
    assert code == 0, out
    assert "test_where[fake:0] PASSED" in out
    assert "nvidia:77" in out
    assert "(not here)" in out


def test_each_implementation_of_a_kernel_is_a_run(tmp_path: Path, fake: str) -> None:
    head = "import pytest\nfrom xtarget import spec\nfrom xtarget._kernels import libraries\n"
    made = (
        "own = libraries.find('neg').spec\n"
        "libraries.register(spec.KernelSpec(**{f: getattr(own, f) for f in ('inputs', 'plan', "
        "'summary', 'dtypes', 'category')}, name='neg', impl='%s', targets=('%s',)), "
        "lambda text: None, 'a file')\n"
    )
    test = "def test_neg(xtarget_impl):\n    assert xtarget_impl in ('xtarget', 'here')\n"
    text = head + made % ("here", "fake") + made % ("away", "nvidia")
    marked = f'{text}@pytest.mark.xtarget_kernel("neg")\n{test}'
    code, out = pytest_in(tmp_path, "--xtarget-device", fake, "-v", text=marked)
    assert code == 0, out
    assert "test_neg[xtarget-fake:0] PASSED" in out
    assert "test_neg[here-fake:0] PASSED" in out
    assert "impl='away' serves nvidia, not fake:" in out
    code, out = pytest_in(tmp_path, "--xtarget-device", fake, "-k", "here and fake", text=marked)
    assert "1 passed, 2 deselected" in out
    code, out = pytest_in(tmp_path, text=f"{head}{test}")
    assert code
    assert "xtarget_impl is of a kernel. Name it: @pytest.mark.xtarget_kernel" in out


def test_a_missing_device_is_a_failure_where_that_is_wanted(tmp_path: Path) -> None:
    code, out = pytest_in(tmp_path, "--xtarget-device", "nvidia:77", "--xtarget-require")
    assert code == 1
    assert "--xtarget-require: nvidia:77" in out


def test_other_tests_are_left_alone(tmp_path: Path) -> None:
    code, out = pytest_in(
        tmp_path, text="import sys\ndef test():\n    assert 'numpy' not in sys.modules"
    )
    assert code == 0, out
    assert f"xtarget {xtarget.__version__}" not in out  # no header
    assert "what the tests ran on" not in out


# ------------------------------------------------------------------------------------ assert_close


def test_what_is_off_is_said_with_its_place() -> None:
    right = np.ones((3, 4))
    result = right.astype(np.float32)
    xtarget.testing.assert_close(result, right)
    result[1, 2] = 1.5
    with pytest.raises(AssertionError, match=r"1 of 12 .* at \[1, 2\], is 1\.5 and not 1\.0"):
        xtarget.testing.assert_close(result, right)


def test_a_kernel_brings_its_tolerance() -> None:
    right = np.array([1.0])
    close = np.array([np.nextafter(np.float32(1), np.float32(2))], np.float32)
    xtarget.testing.assert_close(close, right, kernel="exp")
    with pytest.raises(AssertionError, match="1 of 1 elements"):
        xtarget.testing.assert_close(close, right, kernel="maximum")  # which is exact


@pytest.mark.parametrize("values", [[1, 2, 3], [True, False, True]])
def test_integers_and_bools_are_equal_or_not(values: Any) -> None:
    xtarget.testing.assert_close(np.array(values), np.array(values))
    with pytest.raises(AssertionError):
        xtarget.testing.assert_close(np.array(values), np.roll(values, 1))


def test_nan_in_another_place_is_the_worst() -> None:
    with pytest.raises(AssertionError, match=r"at \[1\], is nan"):
        xtarget.testing.assert_close(
            np.array([1, np.nan], ml_dtypes.bfloat16), np.array([1.0, 1.0])
        )


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = torch.ones(3, dtype=torch.bfloat16, requires_grad=True)
    xtarget.testing.assert_close(x, np.ones(3))
    with pytest.raises(AssertionError, match="bfloat16"):
        xtarget.testing.assert_close(2 * x, np.ones(3))
