package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What a batch writes is what pgx would have written.
func TestArraysAreWrittenAsPgxDoes(t *testing.T) {
	t.Parallel()
	ours, theirs := pgtype.NewMap(), pgtype.NewMap()
	registerArrays(ours)
	equal := func(t require.TestingT, oid uint32, value any) {
		before := []byte("what stands before")
		want, err := theirs.Encode(oid, pgtype.BinaryFormatCode, value, before)
		require.NoError(t, err)
		got, err := ours.Encode(oid, pgtype.BinaryFormatCode, value, before)
		require.NoError(t, err)
		require.Equal(t, want, got)
		wantText, err := theirs.Encode(oid, pgtype.TextFormatCode, value, nil)
		require.NoError(t, err)
		gotText, err := ours.Encode(oid, pgtype.TextFormatCode, value, nil)
		require.NoError(t, err)
		require.Equal(t, wantText, gotText)
	}
	rapid.Check(t, func(t *rapid.T) {
		equal(t, pgtype.TextArrayOID, rapid.SliceOf(rapid.String()).Draw(t, "texts"))
		equal(t, pgtype.TextArrayOID, rapid.SliceOf(rapid.Ptr(rapid.String(), true)).Draw(t, "nullable texts"))
		equal(t, pgtype.Int8ArrayOID, rapid.SliceOf(rapid.Int64()).Draw(t, "numbers"))
		equal(t, pgtype.ByteaArrayOID, rapid.SliceOf(rapid.OneOf(
			rapid.SliceOf(rapid.Byte()), rapid.Just([]byte(nil)))).Draw(t, "bytes"))
	})
	for _, value := range []any{[]string(nil), []string{}, []string{""}, []*string{nil}} {
		equal(t, pgtype.TextArrayOID, value)
	}
	equal(t, pgtype.ByteaArrayOID, [][]byte{nil, {}, {0}})
}
