"""In place of torchvision, which Heat imports for data sets of images, where there is none for this PyTorch.

No test uses what is here: these are the names that Heat's modules have.
"""

from . import datasets, transforms

__all__ = ["datasets", "transforms"]
