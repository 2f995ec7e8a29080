"""Examples of atomics, by themselves and on arrays and tiles, and of what is made of them; of PTX of one's own."""

from __future__ import annotations

import nvdsl as nv
from nvdsl.ops import atomic_vectors, atomics, pointer
from nvdsl.values import dtypes
from tests.sim.examples import address, example

INTEGERS = ("i16", "u16", "i32", "u32", "i64", "u64")
FLOATS = ("f16", "bf16", "f32", "f64")
LOGIC, COUNTS = ("and", "or", "xor"), ("inc", "dec")


def places(k):
    """8 bytes of each thread in global and in shared memory, with zeros in them."""
    found = [pointer.address_of(array, k.t % 64 * 8, space)
             for array, space in ((k.x, pointer.GLOBAL), (k.line, pointer.SHARED))]  # fmt: skip
    for word in range(4):
        k.line[k.t * 4 + word] = 0.0
    k.x[k.t] = 0.0
    nv.sync_threads()
    return found


@example("ops.atomics.atomic")
def _atomic(k):
    """Every kind on every type that has it, in global and in shared memory."""
    found = []
    for place in places(k):
        for name in (*INTEGERS, *FLOATS):
            for kind in atomics.KINDS:
                if name in FLOATS and kind in (*LOGIC, *COUNTS) or kind in COUNTS and "32" not in name:
                    continue
                dtype = dtypes.by_name(name)
                found.append(atomics.atomic(kind, place, k.t % 4, dtype))
    for order in atomics.ORDERS:
        for scope in ("cta", "cluster", "gpu", "sys"):
            found.append(atomics.atomic("add", place, 1, nv.i32, order=order, scope=scope))
    atomics.atomic("add", place, 1, nv.i32, predicate=k.first)
    return found


@example("ops.atomics.atomic_cas")
def _cas(k):
    types = [dtypes.by_name(name) for name in (*INTEGERS, *FLOATS)]
    return [atomics.atomic_cas(place, 0, 1, dtype, order="acq_rel") for place in places(k) for dtype in types]


@example("ops.atomic_vectors.atomic_vector")
def _vectors(k):
    found, (place, shared) = [], places(k)
    for dtype in (nv.f16, nv.bf16):
        found += atomic_vectors.atomic_vector("add", shared, [1.0, 2.0], dtype)
        for kind in ("add", "min", "max"):
            for count in (2, 4):
                found += atomic_vectors.atomic_vector(kind, place, [1.0] * count, dtype)
    wide = pointer.address_of(k.x, k.t % 32 * 16, pointer.GLOBAL)
    found += atomic_vectors.atomic_vector("max", wide, [1.0] * 8, nv.f16)
    found += atomic_vectors.atomic_vector("add", wide, [1.0] * 4, nv.f32, order="release", scope="sys")
    return found + atomic_vectors.atomic_vector("add", place, [1.0] * 2, nv.f32)


for _kind in atomics.KINDS:
    example(f"atomics.atomic_{_kind}")(
        lambda k, name=f"atomic_{_kind}": [getattr(nv, name)(k.counter, 0, k.t), getattr(k.counter, name)(0, 1)]
    )


@example("atomics.atomic_cas")
def _cas_of_elements(k):
    k.A[k.t % 64, k.t // 64] = 0.0
    nv.sync_threads()
    return [nv.atomic_cas(k.counter, 0, 0, k.t), k.A.atomic_cas((k.t % 64, 0), 0.0, 1.0)]


@example("ops.grid.grid_sync")
def _grid(k):
    for _ in range(2):
        nv.grid_sync(k.counter)


@example("ops.pointer.element_address")
def _elements(k):
    device = pointer.element_address(k.x, (k.t,), (1,), pointer.GLOBAL)
    return [nv.i32(address(device)), nv.i32(address(pointer.element_address(k.line, (k.t,), (1,))))]


@example("ops.inline_ptx.ptx")
def _ptx(k):
    nv.ptx("membar.gl;", meaning=lambda: None)
    both = nv.ptx("add.s32 $0, $2, $3; sub.s32 $1, $2, $3;", k.i, 1, result=(nv.i32, nv.i32), volatile=False,
                  meaning=lambda a, b: (a + b, a - b))  # fmt: skip
    loaded = nv.ptx("ld.global.f32 $0, [$1];", pointer.address_of(k.x, k.t * 4, pointer.GLOBAL), result=nv.f32,
                    meaning=lambda x: x.load(nv.f32))  # fmt: skip
    return [*both, loaded]
