"""What layers need of formats: pure functions and frozen data, no I/O."""
