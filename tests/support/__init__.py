"""What tests of several modules share: programs that they run, servers that they talk to, values that they draw."""
