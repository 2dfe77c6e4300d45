"""Machine code of kernels: made by numba once, loaded by later processes without numba.

Importing numba and readying it for a first call takes a third of a second, longer than reading
100 MB. A kernel needs none of it: its object code refers to nothing outside itself, so `objects`
puts it into memory and ctypes calls it. What `objects` cannot read llvmlite loads, whose import
alone takes longer than the rest of a start.

numba's calling convention: the address of the result, the address of the exception, then the
arguments; an array is two references that are not used here, its number of items, item size,
data, and its shape and strides. Status 0 or -2 is a return, anything else an exception.
Source: numba.core.callconv.CPUCallConv, numba.core.datamodel.models.ArrayModel, 0.61 to 0.68.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from je_tools.formats.objects import LIBRARY_CALLS, placed, put

Kinds = tuple[Any, ...]
Run = Callable[[tuple[Any, ...]], Any]

_MAGIC = b"je-tools kernel 1\n"
_DIGEST_SIZE = 16
_RETURNED = (0, -2)
_NUMBER, _NOTHING = "number", "nothing"
_NUMBA_KNOWN = ((0, 61), (0, 69))
"""Versions, from and before, whose calling convention is the one above."""

_NUMBA_PARTS = ("numba.core.compiler", "numba.core.registry")
_INDEX = "fix_integer_index"

_DATA_AT = object.__basicsize__
"""Where an array's object has the address of its data: first behind what every object begins with.

Source: PyArrayObject_fields, NumPy 1.7 to 2.4.
"""


class Code(Struct, frozen=True):
    """One kernel for one set of argument types.

    Attributes:
        symbol: its name in the object.
        returns: `nothing`, `number`, or how many 64-bit numbers a tuple has.
        parameters: 64-bit values that are passed to it.
        data: object code.
    """

    symbol: str
    returns: str | int
    parameters: int
    data: bytes


def kinds_of(arguments: tuple[Any, ...]) -> Kinds:
    """What a specialisation depends on: of an array its type and layout, else only that it is int.

    Raises:
        TypeError: neither an array nor a whole number.
    """
    return tuple(map(_kind_of, arguments))


def _kind_of(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        flags = argument.flags
        return argument.dtype, argument.ndim, flags.writeable, flags.c_contiguous
    if isinstance(argument, (int, np.integer)):
        return int
    raise TypeError(f"a kernel takes arrays and whole numbers, not {type(argument).__name__}")


def build(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Code | None:
    """Compile a function with numba; None where its code would need numba to run.

    None also where this numba is not one whose calling convention is known.

    Args:
        function: what `numba.njit` would be given.
        arguments: of its first call.
    """
    if not _NUMBA_KNOWN[0] <= import_module("numba").version_info.short < _NUMBA_KNOWN[1]:
        return None
    # Parts of numba that it does not promise to keep, and that have no type information.
    compiler, registry = map(import_module, _NUMBA_PARTS)
    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    target = registry.cpu_target
    with plain_indices():
        made = compiler.compile_extra(
            target.typing_context,
            target.target_context,
            function,
            numba_types(arguments),
            None,
            flags,
            {},
        )
    returns = _returns(made.signature.return_type)
    if returns is None or not _stands_alone(made.library):
        return None
    data = made.library._get_compiled_object()
    return Code(made.fndesc.llvm_func_name, returns, len(_flat(arguments)), data)


def numba_types(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types for which numba compiles, with those that `kinds_of` does not tell apart."""
    numba: Any = import_module("numba")
    return tuple(
        numba.typeof(a) if isinstance(a, np.ndarray) else numba.types.int64 for a in arguments
    )


@contextmanager
def plain_indices() -> Iterator[None]:
    """Have numba take an index as it is, and not, where it is negative, from the end.

    Kernels have no negative ones, and the question, asked at each byte, keeps LLVM from copying
    and adding bytes by the dozen. A numba that has another inside is left alone: it is slower.
    Source: numba.np.arrayobj.fix_integer_index, 0.61 to 0.68.
    """
    arrays: Any = import_module("numba.np.arrayobj")
    intp: Any = import_module("numba.core.types").intp

    def as_it_is(context: Any, builder: Any, kind: Any, index: Any, _size: Any) -> Any:
        return context.cast(builder, index, kind, intp)

    kept = getattr(arrays, _INDEX, None)
    if kept is None:
        yield
        return
    setattr(arrays, _INDEX, as_it_is)
    try:
        yield
    finally:
        setattr(arrays, _INDEX, kept)


def _returns(kind: Any) -> str | int | None:
    types: Any = import_module("numba.core.types")

    def is_number(item: Any) -> bool:
        return isinstance(item, types.Integer) and item.bitwidth == 64 and bool(item.signed)

    if isinstance(kind, types.NoneType):
        return _NOTHING
    if isinstance(kind, types.BaseTuple):
        items = list(kind)
        return len(items) if all(map(is_number, items)) else None
    return _NUMBER if is_number(kind) else None


def _stands_alone(library: Any) -> bool:
    """Whether the code refers only to itself and to what every process has."""
    outside = [f.name for f in library._final_module.functions if f.is_declaration]
    return all(name.startswith("llvm.") or name in LIBRARY_CALLS for name in outside)


def _flat(arguments: tuple[Any, ...]) -> list[int]:
    values: list[int] = []
    for argument in arguments:
        if isinstance(argument, np.ndarray):
            values += (0, 0, argument.size, argument.itemsize, _address_of(argument))
            values += argument.shape
            values += argument.strides
        else:
            values.append(int(argument))
    return values


def _by_object(array: npt.NDArray[Any]) -> int:
    """Where the data of an array is: ten times as fast as it can be asked for, as far as it goes.

    A command calls thousands of kernels, each with a dozen arrays.
    """
    return ctypes.c_size_t.from_address(id(array) + _DATA_AT).value


def _by_interface(array: npt.NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


_PROBE = np.zeros(3, np.int64)
_ADDRESSES_AGREE = all(_by_object(each) == _by_interface(each) for each in (_PROBE, _PROBE[1:]))
_address_of = _by_object if _ADDRESSES_AGREE else _by_interface


def load(code: Code) -> Run:
    """Make a kernel callable with its arguments as a tuple; it runs without the GIL."""
    address, keeper = _address(code)
    reference, number = ctypes.c_void_p, ctypes.c_int64
    parameters = (reference, reference, *[number] * code.parameters)
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *parameters)(address)
    count = code.returns if isinstance(code.returns, int) else 1
    result_type = number * count

    def run(arguments: tuple[Any, ...]) -> Any:
        result, exception = result_type(), reference()
        status = function(ctypes.addressof(result), ctypes.addressof(exception), *_flat(arguments))
        if status not in _RETURNED:
            raise RuntimeError(f"{code.symbol} raised an exception, status {status}")
        if code.returns == _NUMBER:
            return result[0]
        return None if code.returns == _NOTHING else tuple(result)

    run.keeper = keeper  # type: ignore[attr-defined]
    return run


def _address(code: Code) -> tuple[int, Any]:
    """Where a kernel is in memory, and what must live as long as it does."""
    whole = placed(code.data, code.symbol)
    address = put(whole) if whole is not None else None
    if address is not None:
        return address, None
    import llvmlite.binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.data))
    engine.finalize_object()
    return engine.get_function_address(code.symbol), engine


def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def processor() -> str:
    """What machine code depends on besides its source: processor, its features, and llvmlite."""
    import llvmlite
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    text = f"{llvmlite.__version__} {llvm.get_host_cpu_name()} {features}"
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def kept_processor(path: Path) -> str | None:
    """What `processor` said since the machine was started, as far as somebody kept it.

    llvmlite, which tells, takes longer to load than all kernels of a command.
    """
    body = _kept(path) if _boot_id() else None
    if body is None or not body.startswith(_since()):
        return None
    return body.removeprefix(_since()).decode()


def keep_processor(told: str, path: Path) -> None:
    """Keep what `processor` said; the machine may be another after its next start."""
    if _boot_id():
        _keep(_since() + told.encode(), path)


def _since() -> bytes:
    import llvmlite

    return f"{llvmlite.__version__} {_boot_id()} ".encode()


@functools.cache
def _boot_id() -> str:
    """Another at each start of each machine; empty where nobody tells. Source: random(4), Linux."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def save(code: Code, path: Path) -> None:
    """Write machine code, so that another process sees all of it or nothing.

    Where it cannot be written it is made anew the next time.
    """
    head = {"symbol": code.symbol, "returns": code.returns, "parameters": code.parameters}
    _keep(json.dumps(head).encode() + b"\n" + code.data, path)


def _keep(body: bytes, path: Path) -> None:
    beside = path.with_name(f"{path.name}.{os.urandom(4).hex()}.part")
    with suppress(OSError):
        try:
            beside.write_bytes(_MAGIC + _digest(body) + body)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def read(path: Path) -> Code | None:
    """Machine code that `save` wrote; None where there is none, or not all of it, or not ours."""
    body = _kept(path)
    if body is None:
        return None
    head, _, data = body.partition(b"\n")
    return Code(data=data, **json.loads(head))


def _kept(path: Path) -> bytes | None:
    """What `_keep` wrote."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return None
            content = file.read()
    except OSError:
        return None
    at = len(_MAGIC) + _DIGEST_SIZE
    body = content[at:]
    return body if content[:at] == _MAGIC + _digest(body) else None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_SIZE).digest()
