"""Arrays: memrefs that know their shape and dtype and are indexed like NumPy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn, overload

import numpy as np

from nvdsl.errors import trace_error
from nvdsl.lang import atomics, predicated, vector_access
from nvdsl.lang.extents import Axes, is_static, known, memref_type, shaped, shown
from nvdsl.lang.remote import Remote, remote
from nvdsl.lang.slices import Part, part
from nvdsl.mlir import ir
from nvdsl.mlir.dialects import memref, vector
from nvdsl.ops.pointer import GLOBAL, SHARED, element_address, index
from nvdsl.values import bounds, dtypes
from nvdsl.values.dtypes import DType
from nvdsl.values.elementwise import Elementwise
from nvdsl.values.extents import constant_fix
from nvdsl.values.traced import Value, as_value, const, no_number, stored, wrap
from nvdsl.values.typing import Coords, Index, Int, Number, Pointer, Slices

_INDICES = ir.Value | int | float | np.generic | slice
"""What may be one, floats with an error of their own (`index`)."""
_DYNAMIC = ir.ShapedType.get_dynamic_stride_or_offset()


@ir.register_value_caster(ir.MemRefType.static_typeid, replace=True)
class Array(ir.Value):
    """A memref value: an argument of a host function, or a view of shared memory.

    ``a[i, j]`` loads, ``a[i, j] = v`` stores (see `nvdsl.values.traced.stored`). ``a[i0:i1, j, ::2]`` is a view without
    a copy (``memref.subview``), without the axis of ``j``. Its extents are known while tracing; a start may be traced,
    and a stop that is so much more than it: ``a[row : row + 32, :]``, or ``a.view((row, 0), (32, 64))``. A Python int
    index out of range is an error; others are checked in debug mode and in the simulator.
    """

    __nv_number__ = "x[i] loads an element: compute with elements"
    __hash__ = ir.Value.__hash__
    _extents: tuple[Int, ...]
    _steps: tuple[Int, ...]
    part_of: tuple[Array, tuple[Part, ...]] | None = None
    """Of a slice: the array, and what it takes of each axis."""

    def __class_getitem__(cls, axes: Any) -> Any:
        """``nv.Array["m", "k % 8"]`` annotates a parameter of a host function: see docs/dynamic.md. `Shaped` says the
        same to type checkers."""
        return Annotated[cls, Axes.parse(axes)]

    def __eq__(self, other: object) -> bool:
        """Whether both are one array: the elements are compared one by one, ``x[i] == y[i]``."""
        if other is not None and (isinstance(other, Value) or not isinstance(other, ir.Value)):
            raise trace_error(
                f"an array == {other!r}",
                rule="an array lies in memory: its elements are compared one by one",
                fix="x[i] == value",
            )
        return ir.Value.__eq__(self, other)

    @property
    def _ty(self) -> ir.MemRefType:
        return ir.MemRefType(self.type)

    @property
    def shape(self) -> tuple[Any, ...]:
        """Extents in elements: ints, and traced i32 where they are dynamic."""
        try:
            return self._extents
        except AttributeError:
            self._extents = found = tuple(self._ty.shape)
            if _DYNAMIC in found:
                numbers = [memref.dim(self, const(k)) if n == _DYNAMIC else n for k, n in enumerate(found)]
                self._extents = tuple([n if isinstance(n, int) else dtypes.i32(n) for n in numbers])
            return self._extents

    @property
    def strides(self) -> tuple[Any, ...]:
        """Distances in elements: ints, and traced index values where they are dynamic."""
        try:
            return self._steps
        except AttributeError:
            self._steps = found = tuple(self._ty.get_strides_and_offset()[0])
            if _DYNAMIC in found:
                every = memref.ExtractStridedMetadataOp(self).strides
                self._steps = tuple([every[k] if n == _DYNAMIC else n for k, n in enumerate(found)])
            return self._steps

    @property
    def ndim(self) -> int:
        """How many axes the array has."""
        return len(self._ty.shape)

    @property
    def bytes(self) -> Any:
        """Bytes of its elements: an int, or a traced i32 where an extent is dynamic."""
        return math.prod(self.shape, start=self.dtype.bytes)

    @property
    def dtype(self) -> DType:
        """The element type. MLIR's integers are signless; an unsigned one is remembered here."""
        return getattr(self, "_dtype", None) or dtypes.from_ir(self._ty.element_type)

    def remember_dtype(self, dtype: DType) -> Array:
        """Note that the elements are ``dtype`` (of the memref's width), e.g. u8 in a memref of i8."""
        self._dtype = dtype
        return self

    def __len__(self) -> int:
        first: Int = self.shape[0]
        if not isinstance(first, int):
            raise trace_error(
                f"the length of an array of shape {shown(self.shape)}",
                rule="len() is a plain number, and a named extent is a traced value",
                fix=constant_fix("x.shape[0] is the traced extent", first),
            )
        return first

    @overload
    def __getitem__(self, key: Index) -> Value: ...  # type: ignore[overload-overlap]  # every Index is one of Slices
    @overload
    def __getitem__(self, key: Slices) -> Array: ...

    def __getitem__(self, key: Index | Slices) -> Value | Array:
        """Load an element, or make a view where a slice is given: see above. Raises TraceError for an index
        that is known while tracing and out of bounds."""
        keys = self._keys(key)
        if any(isinstance(k, slice) for k in keys):
            fix = "write a.view((row, col), (rows, cols)); its start may be traced"
            return self._take([part(k, i, n, fix) for i, (k, n) in enumerate(zip(keys, self.shape, strict=True))])
        return wrap(memref.load(self, [index(k) for k in keys]), self.dtype)

    def __iter__(self) -> NoReturn:
        raise trace_error(
            "a loop over an array",
            rule="an array's elements are read one by one, each thread those that it needs",
            fix="for i in nv.range(n): a[i]",
        )

    def __setitem__(self, key: Index, value: Number) -> None:
        """Store an element, converted to the array's type. Raises TraceError for a slice, and for an
        index that is known while tracing and out of bounds."""
        keys = self._keys(key)
        if any(isinstance(k, slice) for k in keys):
            raise trace_error(
                "assignment to a slice of an array",
                rule="a kernel's store writes one element",
                fix="nv.copy(source, a[i:j]), or .store_vector for a few contiguous ones",
            )
        memref.store(_element(value, self.dtype), self, [index(k) for k in keys])

    def view(self, start: Coords, shape: Coords) -> Array:
        """The ``shape`` block at ``start`` (ints or traced integers), without a copy."""
        if not len(start) == len(shape) == self.ndim or not all(map(_within, start, shape, self.shape)):
            shown = ", ".join(str(s) if isinstance(s, int) else "..." for s in start)
            raise trace_error(
                f"a view of shape {tuple(shape)} at ({shown}) of an array of shape {self.shape}",
                rule="a view has one start and one extent for each axis, is not empty and lies within its array; "
                "negative indices don't wrap in a kernel",
                fix="check the view's start and shape",
            )
        return self._take([Part(s, count) for s, count in zip(start, shape, strict=True)])

    def windows(self, count: int) -> Array:
        """Windows of ``count`` rows, for tensor maps: an array of one axis more, (rows, count, ...), whose
        ``[i, j]`` is row ``i + j``, without a copy. Windows that begin near the end reach beyond the array.

        With `TMA` of ``a.windows(64)`` and a tile of (1, 64, cols), a load at ``(row, n - 64, col)`` brings ``n`` rows
        from ``row`` on into the tile's last rows, and zeros into those before: what lies before a window is outside of
        the tensor. So a part of an array of any length is loaded alone. The host function makes it, of an argument or
        of a view that starts where Python knows. A load of memory beyond the array is an error in the simulator.
        Raises TraceError for arrays in shared memory or of fewer than two axes.
        """
        offset = self._ty.get_strides_and_offset()[1]
        fits = isinstance(count, int) and count >= 1 and self.ndim >= 2
        if not fits or offset == _DYNAMIC or "workgroup" in str(self.type):
            raise trace_error(
                f"windows({count!r}) of {self!r}",
                rule="windows are 1 or more rows, a Python int, of an array in global memory with 2 axes or more that "
                "starts where Python knows",
                fix="make them in the host function, of its argument: a.windows(64)",
            )
        (rows, *inner), (step, *steps) = self.shape, self.strides
        return shaped(self, self.dtype, (rows, count, *inner), (step, step, *steps), offset)

    def _take(self, parts: Sequence[Part]) -> Array:
        starts, steps = [_static_or_index(p.start) for p in parts], [p.step for p in parts]
        sizes = [_static_or_index(p.count) for p in parts]
        if is_static(sizes) and is_static(self.strides) and not any(p.is_index for p in parts):
            view: Array = memref.subview(self, starts, sizes, steps)
            view.part_of = self, tuple(parts)
            return view.remember_dtype(self.dtype)
        pairs = list(zip(parts, self.strides, strict=True))
        shape, strides = zip(*[(p.count, _times(stride, p.step)) for p, stride in pairs if not p.is_index], strict=True)
        offset = self._ty.get_strides_and_offset()[1]
        for p, stride in pairs:
            moves = not isinstance(p.start, int) or p.start != 0
            fixed = isinstance(p.start, int) and isinstance(stride, int) and offset != _DYNAMIC
            offset = (offset + p.start * stride if fixed else _DYNAMIC) if moves else offset
        kind = memref_type(self.type, shape, strides, None if offset == _DYNAMIC else offset)
        view = known(memref.subview(self, starts, sizes, steps, result_type=kind), self.dtype, shape, strides)
        view.part_of = self, tuple(parts)
        return view

    def vector(self, key: Index, count: int) -> Value:
        """``count`` contiguous elements from ``key`` on, read as one access of 2, 4, 8 or 16 bytes (``vector.load``).

        ``v[i]``, ``len(v)``, ``for x in v`` and operators work on the elements; `store_vector` stores them. The first
        element's address is a multiple of the access's bytes. Raises TraceError where it surely is not; else the
        simulator and debug mode check it. TraceError too for another size, and outside of the array.
        """
        keys = self._keys(key)
        alignment = self._check_vector(count, keys)
        ty = ir.VectorType.get([count], self._ty.element_type)
        if count == 1 and self._apart:
            return wrap(vector.from_elements(ty, [self[keys]]), self.dtype)
        return wrap(vector.load(ty, self, [index(k) for k in keys], alignment=alignment), self.dtype)

    def load_vector(self, key: Index, count: int) -> Value:
        """The same as `vector`, by its older name."""
        return self.vector(key, count)

    def store_vector(self, value: Value, key: Index) -> None:
        """Store a vector to contiguous elements from ``key`` on, as one access, converted to the array's type as a
        single element is. Aligned as in `vector`."""
        value = vector_access.converted(value, self.dtype)
        keys = self._keys(key)
        alignment = self._check_vector(value.shape[0], keys)
        if value.shape[0] == 1 and self._apart:
            self[keys] = value[0]
            return
        vector.store(value, self, [index(k) for k in keys], alignment=alignment)

    def at(self, rank: Int) -> Remote:
        """The array of block ``rank`` of the cluster that corresponds to this one, in shared memory: loads, stores,
        vectors and atomics there. Raises TraceError for an array in global memory."""
        return remote(self, rank, "workgroup" in str(self.type))

    store = predicated.store

    # Atomics on one element: see `nvdsl.lang.atomics`.
    atomic_add = atomics.atomic_add
    atomic_sub = atomics.atomic_sub
    atomic_min = atomics.atomic_min
    atomic_max = atomics.atomic_max
    atomic_and = atomics.atomic_and
    atomic_or = atomics.atomic_or
    atomic_xor = atomics.atomic_xor
    atomic_exch = atomics.atomic_exch
    atomic_cas = atomics.atomic_cas
    atomic_inc = atomics.atomic_inc
    atomic_dec = atomics.atomic_dec

    def _element_place(self, key: Index, count: int = 1) -> Pointer:
        """Address of an element, or of ``count`` from it on, for what takes a pointer."""
        keys = self._keys(key)
        if any(isinstance(k, slice) for k in keys):
            raise trace_error(
                "an atomic on a slice of an array",
                rule="an atomic works on one element, or on a vector",
                fix="loop over the elements: each is a step of its own",
            )
        if count > 1:
            self._check_vector(count, keys)
        last = (*self.shape[:-1], self.shape[-1] - count + 1)
        of = f"an array of {'x'.join(str(n) if isinstance(n, int) else '?' for n in self.shape)} {self.dtype.name}"
        bounds.within(of, keys, last)
        space = SHARED if "workgroup" in str(self.type) else GLOBAL
        return element_address(self, keys, self.strides, space)

    @property
    def _apart(self) -> bool:
        """Whether elements of the last axis don't lie side by side: MLIR's vectors do, and be it one."""
        return not isinstance(self.strides[-1], int) or self.strides[-1] != 1

    def _check_vector(self, count: int, keys: tuple[Int, ...]) -> int:
        size = vector_access.size(count, self.dtype, self.strides[-1])
        start, last, what = keys[-1], self.shape[-1], f"a vector access of {count} elements"
        if isinstance(start, int) and isinstance(last, int) and last < start + count:
            raise trace_error(
                f"{what} from {start} on, on an axis of {self.shape[-1]} elements",
                rule="an access lies within the array",
                fix="check the start and the count",
            )
        offset, itemsize = self._ty.get_strides_and_offset()[1], self.dtype.bytes
        if offset != _DYNAMIC:
            axes = [(k, s * itemsize if isinstance(s, int) else s, n if isinstance(n, int) else -1)
                    for k, s, n in zip(keys, self.strides, self.shape, strict=True)]  # fmt: skip
            what = f"a vector access of {count} x {self.dtype.name} ({size} bytes)"
            vector_access.check_aligned(size, what, offset * itemsize, axes, itemsize)
        return size

    def _keys(self, key: Any) -> tuple[Any, ...]:
        keys = key if isinstance(key, tuple) else (key,)
        if any(k is None for k in keys):
            raise trace_error(
                f"None as an index of {self!r}",
                rule="an array lies in memory; what a fragment's rows or columns share is a vector in registers",
                fix="nv.column_vector(x, start, n)[None, :] loads a value for each column, "
                "nv.row_vector(x, start, m)[:, None] one for each row",
            )
        if len(keys) != self.ndim:
            part = ", ".join("i" if axis < len(keys) else ":" for axis in range(self.ndim))
            raise trace_error(
                f"{len(keys)} {'index' if len(keys) == 1 else 'indices'} for an array of shape {self.shape}",
                rule="a kernel indexes every axis",
                fix="write one index"
                if self.ndim == 1
                else f"write {self.ndim} indices" + (f"; x[{part}] is a part of x" if len(keys) < self.ndim else ""),
            )
        for k, extent in zip(keys, self.shape, strict=True):
            if not isinstance(k, _INDICES):
                if callable(k):
                    raise no_number(k)
                raise trace_error(
                    f"{k!r} as an index of {self!r}",
                    rule="an index is an integer, traced or not, or a slice",
                    fix="x[i] is one element, x[i:j] a view of some",
                )
            if isinstance(k, int) and (k < 0 or isinstance(extent, int) and k >= extent):
                raise trace_error(
                    f"index {k} on an axis of {extent} elements",
                    rule="indices are 0 to extent - 1; negative indices don't wrap in a kernel",
                    fix="use shape[axis] - 1 for the last element",
                )
        return keys

    def __repr__(self) -> str:
        return f"Array(shape={shown(self.shape)}, dtype={self.dtype.name})"

    __str__ = __repr__


def _element(value: Number, dtype: DType) -> Value:
    if isinstance(value, Elementwise):
        raise trace_error(
            f"{value!r} stored into one element",
            rule="its elements are spread over the registers of threads",
            fix="acc.store(array, (row, column)), vector.store(array, start)",
        )
    found = stored(value, dtype)
    if found.shape:
        raise trace_error(
            f"{found.shape[0]} numbers stored into one element",
            rule="a store writes one element, and store_vector as many neighbours as a vector has elements",
            fix="x.store_vector(values, i)",
        )
    return found


def _within(start: Int, size: Int, extent: Int) -> bool:
    """Whether a view's axis lies within the array's, as far as Python knows."""
    first = start if isinstance(start, int) else 0
    least = size if isinstance(size, int) else 1
    return least > 0 and first >= 0 and (not isinstance(extent, int) or first + least <= extent)


def _times(stride: Int, step: int) -> Int:
    return stride if step == 1 else stride * step


def _static_or_index(value: Int) -> Int:
    return value if isinstance(value, int) else index(as_value(value))
