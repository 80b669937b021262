"""What every trace needs: launches, steps, operators and modules tied together."""
