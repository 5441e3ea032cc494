"""Orders, gates and preemption rules by name, and the policies put together from them."""
