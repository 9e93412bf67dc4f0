"""Operands that are arrays of other libraries, or of tiles: read before a routine, and its results made of their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..adapters.adapter import adapter_of
from ..adapters.pairs import Pairs
from ..arguments import Needs, in_slabs, move, read_argument
from ..conversion import convert
from ..distributed_array import DistributedArray
from ..layout.array_arithmetic import Distributed
from ..layout.descriptor import Descriptor
from ..layout.tiles import LAYOUTS

FACTORS = ("lu_factor", "cho_factor")  # routines whose results are for other routines, and stay distributed arrays


class ConvertedOperand(NamedTuple):
    """An operand as the user gave it, and as the routine gets it."""

    argument: Any
    array: Distributed


class ConvertedOperands:
    """The operands of a call that has arrays of other libraries or of tiles. Reading them is collective.

    Parameters
    ----------
    routine : str
        Its name.
    names : sequence of str
        Names of its arguments.
    layout_for : callable
        The layout of a matrix for the routine: name, shape and communicator.
    """

    def __init__(self, routine: str, names: Sequence[str], layout_for: Callable[..., Descriptor]) -> None:
        self._routine, self._names, self._layout_for = routine, names, layout_for
        self._operands: list[ConvertedOperand] = []
        self._like: Any = None

    def read(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with distributed arrays in place of others, and layouts in place of arrays for `like` and `layout`."""
        layouts = (
            argument for argument in (*arguments, *keywords.values()) if isinstance(argument, (Distributed, *LAYOUTS))
        )
        other = next((array.desc if isinstance(array, Distributed) else array for array in layouts), None)
        positional = [self._read(name, argument, other) for name, argument in zip(self._names, arguments, strict=False)]
        return positional, {name: self._read(name, argument, other) for name, argument in keywords.items()}

    def _read(self, name: str, argument: Any, other: Any, is_factor: bool = False) -> Any:
        if name in ("like", "layout"):
            if name == "like" and argument is not None:
                self._like = argument
                if adapter_of(argument) is not None or _is_of_tiles(argument):
                    return None
            return read_argument(name, argument, None, other, Needs.LAYOUT).content
        if (
            isinstance(argument, tuple) and adapter_of(argument) is None
        ):  # factors with pivots, or whether they are lower
            return tuple([self._read(name, item, other, True) for item in argument])
        array = read_argument(name, argument, None, other).content
        if not isinstance(array, Distributed):
            return array
        if not isinstance(array.desc, Descriptor):
            array = self._in_blocks(array)
        if not isinstance(array, DistributedArray):
            array = DistributedArray._from_result(array.desc, array.local, array.dtype)
        if array is not argument or not is_factor:  # factors of lu_factor are of no kind
            self._operands.append(ConvertedOperand(argument, array))
        return array

    def _in_blocks(self, array: Distributed) -> Distributed:
        """An array of tiles in a layout for the routine."""
        if array.ndim != 2:
            return in_slabs(array)
        return move(array, self._layout_for(self._routine, array.shape, array.desc.comm))

    @property
    def order(self) -> str:
        """The order of elements in which results are best made: that of the first operand."""
        local = self._operands[0].array.local if self._operands else None
        return "C" if local is not None and local.flags.c_contiguous and not local.flags.f_contiguous else "F"

    def converted(self, result: Any) -> Any:
        """A result in the kind and the layout of the first operand, or of `like`. Collective."""
        if self._routine in FACTORS or not self._operands:
            return result
        if isinstance(result, tuple):
            items = list(result)
            for k in sorted(range(len(items)), key=lambda k: isinstance(items[k], np.ndarray)):  # collective ones first
                items[k] = self.converted(items[k])
            return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
        first = self._operands[0].argument
        if isinstance(result, np.ndarray):
            adapter = adapter_of(first)
            return result if adapter is None else adapter.replicated(first, result)
        if not isinstance(result, Distributed):
            return result
        like = self._like
        if like is None:
            model = self._model(result)
            like = model.argument
            if (
                isinstance(adapter_of(like), Pairs) and model.array.shape != result.shape
            ):  # a pair has no layout for other shapes
                return result.desc, result.local
        if adapter_of(like) is not None:
            return convert(result, like, may_keep=True)
        if _is_of_tiles(like) and like.shape == result.shape:
            layout = like.desc if isinstance(like, Distributed) else like
            return move(result, layout)
        return result

    def _model(self, result: Distributed) -> ConvertedOperand:
        """The operand of the first one's kind that has the layout of a result, or its shape, or as many dimensions."""
        adapter = adapter_of(self._operands[0].argument)
        operands = [operand for operand in self._operands if adapter_of(operand.argument) is adapter]
        exact = [each for each in operands if each.array.desc == result.desc]
        alike = [each for each in operands if each.array.shape == result.shape]
        of_dimension = [each for each in operands if each.array.ndim == result.ndim]
        return (exact or alike or of_dimension or operands)[0]


def _is_of_tiles(argument: Any) -> bool:
    layout = argument.desc if isinstance(argument, Distributed) else argument
    return isinstance(layout, LAYOUTS) and not isinstance(layout, Descriptor)


def need_reading(arguments: Sequence[Any], keywords: Mapping[str, Any]) -> bool:
    """Whether arguments of a routine are arrays of other libraries, or of tiles."""
    listed = [*arguments, *keywords.values()]
    listed += [item for argument in listed if isinstance(argument, tuple) for item in argument]
    return any(adapter_of(argument) is not None or _is_of_tiles(argument) for argument in listed)
