"""Running a tracker along a stream: offline in one compiled scan."""
