// Package des is a small discrete-event simulator: a clock, cores that are
// shared fairly, programs with threads, disks and locks. Everything happens in
// one goroutine; equal input gives equal output.
//
//	clock := &des.Clock{}
//	machine := des.NewMachine(clock, 2)
//	server := des.NewProgram(machine, 1)
//	clock.At(0, func() { server.Do(0.5, func() { fmt.Println(clock.Now()) }) })
//	clock.Run(10) // prints 0.5
//
// Times are seconds. What is to happen next is a function, called when it does.
package des

// Clock is simulated time, and what is going to happen in it.
type Clock struct {
	now    float64
	events events
	count  uint64
}

// Now is the current time.
func (c *Clock) Now() float64 { return c.now }

// At calls f at a time, or now if that has passed. Of equal times the order of
// the calls of At decides.
func (c *Clock) At(time float64, f func()) {
	c.count++
	c.events.insert(event{max(time, c.now), c.count, f})
}

// After calls f when delay has passed.
func (c *Clock) After(delay float64, f func()) { c.At(c.now+delay, f) }

// Run lets time pass until nothing is left to happen, or until the given time.
func (c *Clock) Run(until float64) {
	for len(c.events) > 0 && c.events[0].time <= until {
		next := c.events.take()
		c.now = next.time
		next.f()
	}
}

type event struct {
	time  float64
	order uint64
	f     func()
}

func (e event) before(o event) bool {
	return e.time < o.time || e.time == o.time && e.order < o.order
}

// events is a heap, the first to happen in front. It is container/heap without
// its interfaces, which take more than half of a simulation's time.
type events []event

func (e *events) insert(x event) {
	h := append(*e, x)
	*e = h
	i := len(h) - 1
	for i > 0 && x.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
}

func (e *events) take() event {
	h := *e
	first, last := h[0], len(h)-1
	x := h[last]
	h[last] = event{}
	h = h[:last]
	*e = h
	i := 0
	for child := 1; child < last; child = 2*i + 1 {
		if child+1 < last && h[child+1].before(h[child]) {
			child++
		}
		if x.before(h[child]) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if last > 0 {
		h[i] = x
	}
	return first
}
