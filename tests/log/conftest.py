from __future__ import annotations

from tests.descriptors import descriptors_are_given_back

__all__ = ["descriptors_are_given_back"]
