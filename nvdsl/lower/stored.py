"""Compiled kernels as bytes, for the cache on disk and for other processes: a zip file that any tool can open.

``meta.json`` (what `result.KernelBinary` says, the advisories), and a ``.ptx`` and a ``.cubin`` for each GPU module;
between processes of ours ``host.mlirbc`` (the outlined module), too. No pickles: who reads a file must not execute it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import asdict
from typing import Any

from nvdsl.errors import Where
from nvdsl.lower.advisories import MEANINGS, Advisory
from nvdsl.lower.result import KernelBinary, Lowered, Resources
from nvdsl.mlir import ir

_MEANINGS = {meaning.words: meaning for meaning in MEANINGS}
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Unreadable(Exception):
    """The bytes are not what `pack` makes, or not whole. The message says what is wrong with them."""


_MOST = 1 << 30  # bytes of all parts together: what unpacks to more is none of ours


def pack(lowered: Lowered, advice: list[Advisory], key: str, host: bool = True) -> bytes:
    """``key``: what the bytes are found by; `unpack` gives it back checked. ``host``: with the host module."""
    parts = {"host.mlirbc": bytecode(lowered.host)} if host else {}
    kernels = []
    for kernel in lowered.kernels.values():
        module = kernel.symbol.partition("::")[0]
        parts[f"{module}.ptx"] = kernel.ptx.encode()
        parts[f"{module}.cubin"] = kernel.cubin
        kernels.append({n: v for n, v in asdict(kernel).items() if n not in ("ptx", "cubin")} | {"module": module})
    meta = {
        "key": key,
        "kernels": kernels,
        "advice": [_plain(a) for a in advice],
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in parts.items()},
    }
    text = json.dumps(meta, indent=1)
    parts = {"meta.json": text.encode(), "meta.sha256": hashlib.sha256(text.encode()).hexdigest().encode(), **parts}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED, 1)
    return buffer.getvalue()


def unpack(data: bytes, key: str, context: Any) -> tuple[Lowered, list[Advisory]]:
    """What was packed under ``key``; its host module lives in ``context``. Only of bytes that a process of ours made:
    MLIR may end the process for others. Raises `Unreadable`."""
    parts, kernels, advice = _unpacked(data, key)
    try:
        with context:
            host = ir.Module.parse(parts["host.mlirbc"])
    except Exception as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from None
    return Lowered(host, kernels, {}), advice


def unpack_kernels(data: bytes, key: str) -> tuple[dict[str, KernelBinary], list[Advisory]]:
    """Of what was packed under ``key``, all but the host module. Raises `Unreadable`, whatever the bytes are."""
    return _unpacked(data, key)[1:]


def _unpacked(data: bytes, key: str) -> tuple[dict[str, bytes], dict[str, KernelBinary], list[Advisory]]:
    try:
        parts = _parts(data)
        meta = json.loads(parts["meta.json"])
        if meta["key"] != key:
            raise Unreadable("it was written for another kernel")
        for name, digest in meta["sha256"].items():
            if hashlib.sha256(parts[name]).hexdigest() != digest:
                raise Unreadable(f"{name} has changed since it was written")
        kernels = [_kernel(described, parts) for described in meta["kernels"]]
        advice = [_advisory(described) for described in meta["advice"]]
    except Unreadable:
        raise
    except Exception as error:  # zipfile, json and zlib each raise a dozen types for bytes that are not theirs
        raise Unreadable(f"{type(error).__name__}: {error}") from None
    return parts, {kernel.symbol: kernel for kernel in kernels}, advice


def bytecode(module: Any) -> bytes:
    """A module in MLIR's binary form, locations included."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _parts(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if sum(part.file_size for part in archive.infolist()) > _MOST:
            raise Unreadable(f"it unpacks to more than {_MOST:,} bytes")
        parts = {name: archive.read(name) for name in archive.namelist()}
    if hashlib.sha256(parts["meta.json"]).hexdigest().encode() != parts["meta.sha256"]:
        raise Unreadable("meta.json has changed since it was written")
    return parts


def _plain(advisory: Advisory) -> dict[str, Any]:
    words = advisory.meaning.words if advisory.meaning else None
    where = asdict(advisory.where) if advisory.where else None
    return {"kernel": advisory.kernel, "text": advisory.text, "words": words, "where": where}


def _advisory(plain: dict[str, Any]) -> Advisory:
    meaning = _MEANINGS[plain["words"]] if plain["words"] else None
    return Advisory(plain["kernel"], plain["text"], meaning, _where(plain["where"]))


def _where(plain: dict[str, Any] | None) -> Where | None:
    return Where(**plain) if plain else None


def _kernel(described: dict[str, Any], parts: dict[str, bytes]) -> KernelBinary:
    described = dict(described)
    module = described.pop("module")
    block, cluster = described.pop("block"), described.pop("cluster")
    return KernelBinary(
        ptx=parts[f"{module}.ptx"].decode(),
        cubin=parts[f"{module}.cubin"],
        block=tuple(block) if block else None,
        cluster=tuple(cluster),
        resources=Resources(**described.pop("resources")),
        where=_where(described.pop("where")),
        **described,
    )
