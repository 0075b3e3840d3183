"""How a connector is split into tasks, and what asks for another split."""
