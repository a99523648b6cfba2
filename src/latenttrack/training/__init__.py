"""How weights are learned: objectives, credit, schedules, and training many seeds at once."""
