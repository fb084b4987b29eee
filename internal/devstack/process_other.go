//go:build !linux

package devstack

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// sysProcAttr gives a child a process group of its own. There is no
// parent-death signal here: after a SIGKILL of this process the child goes on.
func sysProcAttr(a *account) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setpgid: true}
	if a != nil {
		attr.Credential = a.credential()
	}
	return attr
}

// childrenOf lists the direct children of pid.
func childrenOf(pid int) []int {
	text, err := exec.Command("pgrep", "-P", strconv.Itoa(pid)).Output()
	if err != nil {
		return nil
	}
	var pids []int
	for field := range strings.FieldsSeq(string(text)) {
		if child, err := strconv.Atoi(field); err == nil {
			pids = append(pids, child)
		}
	}
	return pids
}
