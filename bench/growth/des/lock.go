package des

// Lock is held by one at a time, in the order of asking.
type Lock struct {
	clock   *Clock
	held    bool
	since   float64
	busy    float64
	waiting queue[func()]
}

// NewLock returns a free lock.
func NewLock(clock *Clock) *Lock { return &Lock{clock: clock} }

// Acquire calls f when the lock is the caller's, who has to release it.
func (l *Lock) Acquire(f func()) {
	if l.held {
		l.waiting.push(f)
		return
	}
	l.held, l.since = true, l.clock.now
	f()
}

// Release gives the lock to whoever has waited longest.
func (l *Lock) Release() {
	if l.waiting.len() > 0 {
		l.waiting.pop()()
		return
	}
	l.held = false
	l.busy += l.clock.now - l.since
}

// Busy is for how long it was held.
func (l *Lock) Busy() float64 {
	if l.held {
		return l.busy + l.clock.now - l.since
	}
	return l.busy
}

// Rows are rows that transactions lock, each a few of many: two transactions
// have one in common with the probability that the second to ask gives. It
// waits for all earlier ones it has something in common with.
type Rows struct {
	chance func() float64
	in     []*Claim
}

// Claim is one transaction's.
type Claim struct {
	before  int
	behind  []*Claim
	granted func()
}

// NewRows returns rows that nobody has locked; chance returns numbers between
// 0 and 1, 1 excluded.
func NewRows(chance func() float64) *Rows { return &Rows{chance: chance} }

// Acquire calls f when the rows are the caller's.
func (r *Rows) Acquire(common float64, f func()) *Claim {
	c := &Claim{granted: f}
	for _, other := range r.in {
		if r.chance() < common {
			c.before++
			other.behind = append(other.behind, c)
		}
	}
	r.in = append(r.in, c)
	if c.before == 0 {
		f()
	}
	return c
}

// Release ends a claim that was granted.
func (r *Rows) Release(c *Claim) {
	for i, other := range r.in {
		if other == c {
			r.in = append(r.in[:i], r.in[i+1:]...)
			break
		}
	}
	for _, next := range c.behind {
		if next.before--; next.before == 0 {
			next.granted()
		}
	}
}
