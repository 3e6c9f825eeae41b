"""Phases kept in variables that flip when a ring comes round; first and last product apart."""


class Ring:
    def __init__(self, stages):
        self.stages, self.slot, self.phase = stages, 0, 0

    def step(self):
        self.slot += 1
        if self.slot == self.stages:
            self.slot, self.phase = 0, 1 - self.phase


def producer(sm, n_tiles, stages):
    ring = Ring(stages)
    for tile in range(n_tiles):
        yield from fill(sm, sm.k_empty[ring.slot], 1 - ring.phase, sm.load_k, tile, ring.slot)
        yield from fill(sm, sm.v_empty[ring.slot], 1 - ring.phase, sm.load_v, tile, ring.slot)
        ring.step()


def fill(sm, empty, phase, load, tile, slot):
    yield sm.wait(empty, phase)
    yield load(tile, slot)


def consumer(sm, w, n_tiles, stages):
    if n_tiles == 0:
        return
    k, v, turn = Ring(stages), Ring(stages), Ring(1)
    if w == 0:
        turn.phase = 1
    for tile in range(n_tiles):
        yield sm.wait(sm.turn[w], turn.phase)
        turn.step()
        yield sm.wait(sm.k_full[k.slot], k.phase)
        yield sm.qk(tile, k.slot)
        if tile:
            yield sm.wait(sm.v_full[v.slot], v.phase)
            yield sm.pv(tile - 1, v.slot)
        yield sm.wait_products(1 if tile else 0)
        yield sm.arrive(sm.k_empty[k.slot])
        k.step()
        yield sm.arrive(sm.turn[(w + 1) % sm.consumers])
        yield sm.softmax(tile)
        if tile:
            yield sm.wait_products(0)
            yield sm.arrive(sm.v_empty[v.slot])
            v.step()
            yield sm.rescale(tile)
    yield sm.wait(sm.v_full[v.slot], v.phase)
    yield sm.pv(n_tiles - 1, v.slot)
    yield sm.wait_products(0)
    yield sm.arrive(sm.v_empty[v.slot])
