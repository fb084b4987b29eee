package postgres

import (
	"encoding/binary"

	"github.com/jackc/pgx/v5/pgtype"
)

// registerArrays lets connections write the arrays of batches in one go. pgx's own
// codec makes an interface of each element and grows its buffer as it goes, which takes
// five times as long: see BenchmarkArrays. Other types of arguments are left to it.
func registerArrays(m *pgtype.Map) {
	register(m, pgtype.TextArrayOID, func(buf []byte, v string) []byte { return append(buf, v...) }, func(v string) int { return len(v) })
	register(m, pgtype.ByteaArrayOID, func(buf, v []byte) []byte { return append(buf, v...) }, func(v []byte) int {
		if v == nil {
			return null
		}
		return len(v)
	})
	register(m, pgtype.Int8ArrayOID, func(buf []byte, v int64) []byte { return binary.BigEndian.AppendUint64(buf, uint64(v)) }, func(int64) int { return 8 })
}

// null is the length of an element that is NULL.
const null = -1

// register adds a quicker way to write []T to the codec of the arrays of type oid.
func register[T any](m *pgtype.Map, oid uint32, write func([]byte, T) []byte, length func(T) int) {
	known, _ := m.TypeForOID(oid)
	codec := arrayCodec[T]{ArrayCodec: known.Codec.(*pgtype.ArrayCodec), write: write, length: length}
	m.RegisterType(&pgtype.Type{Name: known.Name, OID: oid, Codec: codec})
}

// arrayCodec writes []T by itself and leaves everything else to pgx.
type arrayCodec[T any] struct {
	*pgtype.ArrayCodec

	write  func([]byte, T) []byte
	length func(T) int
}

// PlanEncode returns the way to write value.
func (c arrayCodec[T]) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]T); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode appends an array in Postgres' binary format: dimensions, whether there are
// nulls, the type of the elements, length and lower bound of the one dimension, then
// each element behind its length.
func (c arrayCodec[T]) Encode(value any, buf []byte) ([]byte, error) {
	elements := value.([]T)
	if elements == nil {
		return nil, nil
	}
	size, nulls := 20, uint32(0)
	for _, e := range elements {
		n := c.length(e)
		if n == null {
			nulls = 1
		}
		size += 4 + max(n, 0)
	}
	if free := cap(buf) - len(buf); free < size {
		buf = append(make([]byte, 0, len(buf)+size), buf...)
	}
	buf = binary.BigEndian.AppendUint32(buf, 1)
	buf = binary.BigEndian.AppendUint32(buf, nulls)
	buf = binary.BigEndian.AppendUint32(buf, c.ElementType.OID)
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(elements)))
	buf = binary.BigEndian.AppendUint32(buf, 1)
	for _, e := range elements {
		n := c.length(e)
		buf = binary.BigEndian.AppendUint32(buf, uint32(int32(n)))
		if n != null {
			buf = c.write(buf, e)
		}
	}
	return buf, nil
}
