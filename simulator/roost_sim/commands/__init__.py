"""The commands of roost-sim, one module each, and the options that they share."""
