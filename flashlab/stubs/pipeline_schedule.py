"""A producer and its consumers on one Hopper SM: who loads, computes and waits, and when."""


def producer(sm, n_tiles, stages):
    for tile in range(n_tiles):
        # 1. Where this tile goes
        # Step 1: define slot of this tile, and phase: the parity of its rounds before
        raise NotImplementedError("Step 1 is not written yet")

        # 2. Load K and V, each as soon as its slot is empty
        # Step 2: wait until the slot is empty, load K; then the same for V
        raise NotImplementedError("Step 2 is not written yet")


def consumer(sm, w, n_tiles, stages):
    after = (w + 1) % sm.consumers  # whose turn comes after this warpgroup's
    for tile in range(n_tiles + 1):  # one round more: the product with V is a tile behind
        last = tile - 1
        slot, phase = tile % stages, tile // stages & 1
        last_slot, last_phase = last % stages, last // stages & 1

        # 3. Wait for this warpgroup's turn; warpgroup 0 has the first one
        # Step 3: wait at sm.turn[w]; the very first wait of warpgroup 0 must pass
        raise NotImplementedError("Step 3 is not written yet")

        # 4. Start both products of the round
        # Step 4: when K is there, Q K of tile; when V is there, P V of last
        raise NotImplementedError("Step 4 is not written yet")

        # 5. When the scores are there, let the next warpgroup begin
        # Step 5: wait for Q K alone, pass the turn; give K back and take the softmax
        raise NotImplementedError("Step 5 is not written yet")

        # 6. When P V is there too, V may go back
        # Step 6: wait for all products; give the V of last back
        raise NotImplementedError("Step 6 is not written yet")

        # Given: nothing adds to the accumulator now, so it may be rescaled
        if tile < n_tiles:
            yield sm.rescale(tile)
