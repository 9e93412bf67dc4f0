"""Nothing but the name that Heat's annotations have."""


class Compose: ...
