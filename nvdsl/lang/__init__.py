"""What a kernel is written with: arrays, tiles, TMA, rings, accumulators."""
