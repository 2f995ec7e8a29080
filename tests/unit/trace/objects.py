"""Classes whose objects the tests merge and carry."""


class Carrier:
    """An object with the carry protocol."""

    def __init__(self, a, b, label="carrier"):
        self.a, self.b, self.label = a, b, label

    def __nv_values__(self):
        return [self.a, self.b]

    def __nv_rebuild__(self, values):
        return Carrier(*values, self.label)


class Plain:
    def __init__(self, x):
        self.x = x
