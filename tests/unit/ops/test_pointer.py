"""Addresses: a memref's first element, and bytes from there."""

import pytest

import nvdsl as nv
from nvdsl.ir.walk import defining, find
from nvdsl.ops.pointer import GLOBAL, address_of, byte_offset, condition, index
from nvdsl.verify.evaluate import evaluate
from tests.unit.kernels import array, trace


def offsets(body, *arguments, thread=0):
    """Bytes that are added to the memref's own pointer, by one or several getelementptr."""
    found = []

    def kernel(*traced):
        found.append(body(*traced))

    trace(kernel, *arguments)
    total, op = 0, defining(found[0])
    while op.name == "llvm.getelementptr":
        (constant,) = list(op.attributes["rawConstantIndices"])
        total += constant if constant != -(2**31) else evaluate(op.operands[1], thread)
        op = defining(op.operands[0])
    assert op.name == "llvm.inttoptr"
    return total


X = array(nv.f32, 64, 32)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        (lambda x: address_of(x, space=GLOBAL), 0),
        (lambda x: address_of(x, 12, space=GLOBAL), 12),
        (lambda x: address_of(x, nv.thread_id.x * 4, space=GLOBAL), 20),
        (lambda x: address_of(x[2:4, 8:16], space=GLOBAL), (2 * 32 + 8) * 4),
        (lambda x: address_of(x[2:4, 8:16], 4, space=GLOBAL), (2 * 32 + 8) * 4 + 4),
        (lambda x: byte_offset(byte_offset(address_of(x, space=GLOBAL), 8), nv.thread_id.x), 13),
    ],
)
def test_bytes_from_the_start(address, expected):
    assert offsets(address, X, thread=5) == expected


def test_a_view_that_starts_at_a_traced_place_is_found_at_run_time():
    """memref says where the view starts; no constant does."""

    def body(x):
        address_of(x.view((nv.thread_id.x, 0), (1, 32)), space=GLOBAL)

    assert find(trace(body, X), "memref.extract_strided_metadata")


def test_the_address_space_is_the_pointers():
    def body(x):
        assert str(address_of(x, space=GLOBAL).type) == "!llvm.ptr<1>"
        assert str(nv.smem((8, 8), nv.f16).pointer().type) == "!llvm.ptr<3>"

    trace(body, X)


def test_conditions_and_indices():
    def body():
        for value in (True, nv.thread_id.x < 4):
            assert str(condition(value).type) == "i1"
        for value in (3, nv.thread_id.x, nv.u8(3), nv.i64(3), nv.index(3)):
            assert index(value).dtype is nv.index

    trace(body)
