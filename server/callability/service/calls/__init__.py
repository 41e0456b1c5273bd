"""What the calls of the contract do, by whichever policy is served."""
