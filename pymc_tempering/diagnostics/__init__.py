"""What a run says of itself: travel along the ladder, overlap, weights, modes."""
