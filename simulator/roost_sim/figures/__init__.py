"""What a run came to: job times, communication, fairness, occupancy, and the lower bound."""
