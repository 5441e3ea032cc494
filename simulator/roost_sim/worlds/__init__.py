"""How fast jobs run: measured profiles, shared links, neighbours, published models."""
