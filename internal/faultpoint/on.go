//go:build torture

package faultpoint

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
)

// Reach obeys an order for this point.
func Reach(point string) {
	file := os.Getenv(OrderEnv)
	if file == "" {
		return
	}
	order, err := os.ReadFile(file)
	if err != nil {
		return
	}
	where, action, _ := strings.Cut(strings.TrimSpace(string(order)), " ")
	if where != point || os.Remove(file) != nil { // somebody else obeys
		return
	}
	if action == "stop" {
		stop()
		return
	}
	die()
}

// Judge dies of a deadly event.
func Judge(id string) {
	if !strings.Contains(id, "deadly") {
		return
	}
	if _, err := os.Stat(os.Getenv(OrderEnv) + Deadly); err == nil {
		die()
	}
}

func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// stop sleeps until somebody continues the process.
func stop() {
	goes := make(chan os.Signal, 1)
	signal.Notify(goes, syscall.SIGCONT)
	defer signal.Stop(goes)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-goes // this thread may run on for a moment before the stop reaches it
}
