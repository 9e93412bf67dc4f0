class SizeClass:
    past: bool

class Trials:
    size_class: SizeClass
    def __init__(self, size_class: SizeClass) -> None: ...

class Stores:
    past: bool
    timed: bool
    nbytes: int
    def __init__(self, nbytes: int, past: bool, trials: Trials | None = None) -> None: ...
    def begin(self) -> bool: ...
    def add(self, nbytes: int, spent: int) -> None: ...
