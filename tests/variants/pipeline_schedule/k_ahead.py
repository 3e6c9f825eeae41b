"""The producer loads K a tile ahead of V; the turn ends with the round's second product."""


def producer(sm, n_tiles, stages):
    for step in range(n_tiles + 1):
        if step < n_tiles:
            yield sm.wait(sm.k_empty[step % stages], (step // stages + 1) % 2)
            yield sm.load_k(step, step % stages)
        if step > 0:
            tile = step - 1
            yield sm.wait(sm.v_empty[tile % stages], (tile // stages + 1) % 2)
            yield sm.load_v(tile, tile % stages)


def consumer(sm, w, n_tiles, stages):
    def place(tile):
        return tile % stages, (tile // stages) % 2

    for tile in range(n_tiles + 1):
        slot, phase = place(tile)
        old, old_phase = place(tile - 1)
        yield sm.wait(sm.turn[w], (tile + (1 if w == 0 else 0)) % 2)
        if tile < n_tiles:
            yield sm.wait(sm.k_full[slot], phase)
            yield sm.qk(tile, slot)
        if tile > 0:
            yield sm.wait(sm.v_full[old], old_phase)
            yield sm.pv(tile - 1, old)
        yield sm.wait_products(1 if 0 < tile < n_tiles else 0)
        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        if tile == n_tiles:
            if tile:
                yield sm.arrive(sm.v_empty[old])
            break
        yield sm.arrive(sm.k_empty[slot])
        yield sm.softmax(tile)
        yield sm.wait_products(0)
        if tile > 0:
            yield sm.arrive(sm.v_empty[old])
        yield sm.rescale(tile)
