"""From a call of a host function to a launch: what a call is, what it was compiled to, and where that is kept."""
