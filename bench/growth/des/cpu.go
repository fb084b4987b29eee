package des

// Machine is a number of cores that its running threads share fairly, as the
// kernel does: each of n threads gets min(1, cores/n) of a core. Fractions of
// cores are what somebody else left over.
type Machine struct {
	clock *Clock
	cores float64
	// virtual is the CPU time that a thread got which ran from the beginning;
	// a thread ends when it reaches what it was at its start plus its work.
	virtual float64
	at      float64 // when virtual was brought up to date
	running events  // by the virtual time at which they end
	count   uint64
	planned uint64 // the latest planned end; earlier plans are void
	used    float64
}

// NewMachine returns an idle machine.
func NewMachine(clock *Clock, cores float64) *Machine {
	return &Machine{clock: clock, cores: cores}
}

// Used is the CPU time used so far, in core seconds.
func (m *Machine) Used() float64 {
	m.advance()
	return m.used
}

// Cores is how many cores it has.
func (m *Machine) Cores() float64 { return m.cores }

// Run starts a thread that needs work seconds of a core, and calls f at its end.
func (m *Machine) Run(work float64, f func()) {
	m.advance()
	m.count++
	m.running.insert(event{m.virtual + work, m.count, f})
	m.plan()
}

// share is what each thread gets of a core.
func (m *Machine) share() float64 { return min(1, m.cores/float64(len(m.running))) }

func (m *Machine) advance() {
	passed := m.clock.now - m.at
	m.at = m.clock.now
	if len(m.running) == 0 {
		return
	}
	m.virtual += passed * m.share()
	m.used += passed * m.share() * float64(len(m.running))
}

// plan wakes the machine when the next thread ends, if nothing else comes first.
func (m *Machine) plan() {
	m.planned++
	if len(m.running) == 0 {
		return
	}
	mine := m.planned
	m.clock.After((m.running[0].time-m.virtual)/m.share(), func() {
		if mine == m.planned {
			m.end()
		}
	})
}

func (m *Machine) end() {
	m.advance()
	first := m.running.take()
	m.virtual = max(m.virtual, first.time) // rounding may have left it a little before
	m.plan()
	first.f()
}

// Program is a number of threads, 1 for a Postgres backend or Redis and
// GOMAXPROCS for a Go program, that take tasks in the order of their arrival.
type Program struct {
	machine *Machine
	threads int
	busy    int
	waiting queue[task]
	used    float64
}

type task struct {
	work float64
	f    func()
}

// NewProgram returns an idle program on machine.
func NewProgram(machine *Machine, threads int) *Program {
	return &Program{machine: machine, threads: threads}
}

// Used is the CPU time of what has ended, in core seconds.
func (p *Program) Used() float64 { return p.used }

// Do runs a task of so much CPU time, and calls f at its end.
func (p *Program) Do(work float64, f func()) {
	if p.busy == p.threads {
		p.waiting.push(task{work, f})
		return
	}
	p.start(task{work, f})
}

func (p *Program) start(t task) {
	p.busy++
	p.machine.Run(t.work, func() {
		p.busy--
		p.used += t.work
		if p.waiting.len() > 0 {
			p.start(p.waiting.pop())
		}
		t.f()
	})
}
