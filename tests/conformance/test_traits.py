"""A vendor of another package is a first-class one: names, targets, default device, arrays."""

from __future__ import annotations

import json

import numpy as np
import pytest
from processes import run_python

import xtarget
from xtarget import Target
from xtarget._values import vendors
from xtarget._values.vendor_traits import VendorTraits
from xtarget.targets.base import VendorPackage

DEFAULT = """
import json, sys
for binding in ("cuda", "hip", "dpctl", "pyopencl"):
    sys.modules[binding] = None
import numpy as np
import xtarget
array = xtarget.asarray(np.arange(6, dtype=np.float32))
print(json.dumps([xtarget.default_device().name, array.device, array.numpy().tolist()]))
"""


@pytest.mark.parametrize("text", ["fake:f1", "pretend:1", "PRETEND", "fake", "Pretend 9000"])
def test_its_targets_are_read_by_its_own_rules(text: str) -> None:
    assert Target.parse(text) == Target("fake", "f1")


def test_what_it_refuses_is_no_target() -> None:
    with pytest.raises(xtarget.UnknownTargetError, match="is not a target"):
        Target.parse("fake:f2")


def test_its_devices_have_its_aliases() -> None:
    assert xtarget.device("pretend").info.name == "fake:0"
    assert xtarget.device("pretend:0") is xtarget.device("fake:0")


def test_it_is_the_default_where_no_built_in_vendor_has_a_device() -> None:
    unset = {"XTARGET_DEVICE": None, "FAKE_VENDOR_UNASKED": "1"}
    done = run_python("-c", DEFAULT, check=True, **unset)
    name, where, values = json.loads(done.stdout)
    assert (name, where, values) == ("fake:0", "fake:0", [0, 1, 2, 3, 4, 5])
    refused = run_python("-c", DEFAULT, XTARGET_DEVICE=None, FAKE_VENDOR_UNASKED=None)
    assert "NoDeviceError: no device was found" in refused.stderr


def test_its_arrays_are_exchanged_by_dlpack() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    array = xtarget.asarray(values, device="fake:0")
    assert array.__dlpack_device__() == (12, 0)
    assert not hasattr(array, "__cuda_array_interface__")
    assert not hasattr(array, "__sycl_usm_array_interface__")

    class Exported:
        """The same array, as another library would hand it over."""

        __dlpack_device__ = staticmethod(array.__dlpack_device__)
        __dlpack__ = staticmethod(array.__dlpack__)

    again = xtarget.asarray(Exported())
    assert (again.device, again.address) == ("fake:0", array.address)
    np.testing.assert_array_equal(again.numpy(), values)


@pytest.mark.parametrize("name", [*vendors.BUILTIN, "fake"])
def test_a_vendors_package_has_what_the_contract_says(name: str) -> None:
    package = vendors.package_of(name)
    assert isinstance(package, VendorPackage)
    assert isinstance(package.vendor_traits(), VendorTraits)


def test_the_built_in_vendors_are_in_the_order_of_their_preference() -> None:
    order = []
    for vendor in vendors.BUILTIN:
        preference = vendors.traits(vendor).preference
        assert preference is not None
        order.append(preference)
    assert order == sorted(order)


def test_no_two_vendors_share_a_name_or_a_kind_of_memory() -> None:
    known = [vendors.traits(vendor) for vendor in vendors.vendors()]
    for facts in (
        [alias for traits in known for alias in traits.aliases],
        [name for traits in known for name in traits.products],
        [traits.dlpack_device_type for traits in known if traits.dlpack_device_type],
    ):
        assert len(facts) == len(set(facts))
        assert not set(facts) & set(vendors.vendors())
