"""Python objects as messages: pickle's protocol 5, with large arrays beside it instead of inside.

Both ends run the same user's code as the same user, so a pickle gives nobody more than they have.
"""

import copyreg
import io
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from serving.runtime.arena import Bytes

BESIDE_FROM = 16 * 1024
"""Bytes; what is smaller is quicker inside the pickle."""
_SIMPLE = frozenset("biufc?SUV")
"""Kinds of numpy's types that are nothing but their bytes."""


def _reduce_array(array: np.ndarray[Any, Any]) -> Any:
    dtype = array.dtype
    if dtype.kind in _SIMPLE and dtype.names is None and array.flags.c_contiguous:
        return _array, (pickle.PickleBuffer(array), dtype.str, array.shape)  # type: ignore[arg-type]
    return array.__reduce_ex__(5)


def _array(buffer: Any, dtype: str, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.ndarray(shape, dtype, buffer)


def _reduce_tensor(tensor: Any) -> Any:
    """Pack a tensor as an array over the same memory. From a GPU it comes to the host first: device memory
    that another process maps stays taken for as long as that one hangs.
    """
    import torch

    if tensor.layout is not torch.strided:
        return tensor.__reduce_ex__(5)
    host = tensor.detach().cpu().contiguous()
    if host.dtype is torch.bfloat16:
        return _bfloat16, (host.view(torch.int16).numpy(),)
    return _tensor, (host.numpy(),)


def _tensor(array: np.ndarray[Any, Any]) -> Any:
    import torch

    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _bfloat16(array: np.ndarray[Any, Any]) -> Any:
    import torch

    return _tensor(array).view(torch.bfloat16)


_table: dict[type, Callable[[Any], Any]] = {}


def _reducers() -> dict[type, Callable[[Any], Any]]:
    if not _table:
        _table.update(copyreg.dispatch_table)
        _table[np.ndarray] = _reduce_array
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        # Whoever imports it in another thread right now: next time.
        if torch.__dict__.keys() >= {"Tensor", "nn"} and torch.Tensor not in _table:
            _table[torch.Tensor] = _table[torch.nn.Parameter] = _reduce_tensor
    return _table


def pack(value: object) -> tuple[bytes, list[Bytes]]:
    """The pickle, and the bytes of the large arrays in it. Raises whatever the object's own pickling does."""
    beside: list[Bytes] = []

    def keep_inside(buffer: pickle.PickleBuffer) -> bool:
        try:
            raw = buffer.raw()
        except BufferError:
            return True
        if raw.nbytes < BESIDE_FROM:
            return True
        beside.append(np.frombuffer(raw, np.uint8))
        return False

    kept = io.BytesIO()
    pickler = pickle.Pickler(kept, 5, buffer_callback=keep_inside)
    pickler.dispatch_table = _reducers()
    pickler.dump(value)
    return kept.getvalue(), beside


def unpack(pickled: bytes | bytearray | memoryview, beside: Sequence[Any]) -> Any:
    """The object; its arrays look into `beside`."""
    return pickle.loads(pickled, buffers=beside)  # noqa: S301 - see the module
