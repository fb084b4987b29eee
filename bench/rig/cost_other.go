//go:build !linux

package rig

import "time"

func times(map[string]int) map[string]time.Duration { return nil }

func machineTime() time.Duration { return 0 }

func wrote(int) int64 { return 0 }

func flushes(string) int64 { return 0 }

func status(int, string) int64 { return 0 }

func forgetPeak(int) {}
