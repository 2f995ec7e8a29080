"""Pictures, as SVG written by hand and as text: a pipeline's slots over time, a swizzled tile, a wgmma fragment."""
