package des

// Disk makes writes durable one after the other.
type Disk struct {
	lock  *Lock
	clock *Clock
	took  func(bytes float64) float64
}

// NewDisk returns an idle disk on which a sync of so many bytes takes took.
func NewDisk(clock *Clock, took func(bytes float64) float64) *Disk {
	return &Disk{NewLock(clock), clock, took}
}

// Sync calls f when bytes are durable.
func (d *Disk) Sync(bytes float64, f func()) {
	d.lock.Acquire(func() {
		d.clock.After(d.took(bytes), func() {
			d.lock.Release()
			f()
		})
	})
}

// Busy is for how long it was syncing.
func (d *Disk) Busy() float64 { return d.lock.Busy() }

// Log is a log on a disk that many append to: what is asked for during one sync
// shares the next, as in Postgres.
type Log struct {
	disk    *Disk
	bytes   float64
	waiting []func()
	syncing bool
}

// NewLog returns an empty log.
func NewLog(disk *Disk) *Log { return &Log{disk: disk} }

// Flush calls f when bytes of the log, and all before them, are durable.
func (l *Log) Flush(bytes float64, f func()) {
	l.bytes += bytes
	l.waiting = append(l.waiting, f)
	if !l.syncing {
		l.sync()
	}
}

func (l *Log) sync() {
	if len(l.waiting) == 0 {
		l.syncing = false
		return
	}
	l.syncing = true
	bytes, done := l.bytes, l.waiting
	l.bytes, l.waiting = 0, nil
	l.disk.Sync(bytes, func() {
		l.sync() // the next one begins before anybody goes on
		for _, f := range done {
			f()
		}
	})
}
