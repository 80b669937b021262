"""What makes samples of a dataset costly: libraries that are quicker in another way, and which."""

from collections.abc import Callable, Iterator

_LEAST_SHARE = 0.3
"""Of the time of loading: from there on another way to use the library is the advice."""

GENERAL = "with arrays instead of loops, or done ahead of training"
_WAYS = {
    "pandas": (
        r"(?:^|/)pandas/core/",
        "take the columns out once and index that (`torch.from_numpy(table[columns].to_numpy())`)",
    ),
    "reading tables with pandas": (
        r"(?:^|/)pandas/io/",
        "read the files once, and keep their numbers as one array (`numpy.save`)",
    ),
    "numpy.load": (
        r"(?:^|/)numpy/lib/_?npyio(?:_impl)?\.py\(\d+\): (?:load|loadtxt|genfromtxt|__getitem__)$",
        "keep all samples in one uncompressed array (`numpy.load(file, mmap_mode='r')` maps it)",
    ),
    "torch.load": (
        r"(?:^|/)torch/serialization\.py\(\d+\): load$",
        "keep all samples in one tensor (`torch.load(file, mmap=True)`) instead of a file for each",
    ),
    "HDF5": (
        r"(?:^|/)h5py/",
        "open the file once, and read a batch at once (`__getitems__`), in the order of the file",
    ),
    "parsing JSON": (
        r"(?:^|/)json/(?:__init__|decoder)\.py\(\d+\): loads?$",
        "parse the texts once, and keep numbers as arrays",
    ),
    "computing spectrograms": (
        r"(?:^|/)(?:librosa|torchaudio/(?:transforms|functional))/",
        "store them, or compute them for a whole batch on the device of the model",
    ),
    "decoding images": (
        r"(?:^|/)PIL/(?:ImageFile|\w+ImagePlugin)\.py\(|^<built-in function im(?:decode|read)>$",
        "store them smaller, or decode JPEGs at less than full size (`image.draft('RGB', size)`)",
    ),
    "transforming images": (
        r"(?:^|/)(?:torchvision/transforms|albumentations|kornia/augmentation)/",
        "store images smaller, and crop before what changes all pixels (colours, blur, rotation)",
    ),
}
"""By what it is called: the Python functions that it is known by, and what to do instead."""

CALLS = "|".join(expression for expression, _ in _WAYS.values())


def cheaper(share_of: Callable[[str], float]) -> str:
    """Return how to make loading cheaper; `share_of` tells the share of functions that fit."""
    share, name, way = max(_shares(share_of), default=(0.0, "", ""))
    return f"{name} takes {share:.0%} of it, so {way}" if share >= _LEAST_SHARE else GENERAL


def _shares(share_of: Callable[[str], float]) -> Iterator[tuple[float, str, str]]:
    for name, (expression, way) in _WAYS.items():
        yield min(share_of(expression), 1.0), name, way
