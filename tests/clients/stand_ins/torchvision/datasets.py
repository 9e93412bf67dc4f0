"""Nothing but the base class of Heat's."""


class MNIST: ...
