# VectorLane's verbs, compiled once for each instruction set.
octet_lane_units(lanes/vector)
