package postgres

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/stretchr/testify/require"
)

func BenchmarkArrays(b *testing.B) {
	keys := make([]string, 500)
	for i := range keys {
		keys[i] = fmt.Sprintf("6:stripe,0:,4:live,6:charge,%d:", i)
	}
	for name, register := range map[string]func(*pgtype.Map){"pgx": func(*pgtype.Map) {}, "ours": registerArrays} {
		m := pgtype.NewMap()
		register(m)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := m.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, keys, make([]byte, 0, 256))
				require.NoError(b, err)
			}
		})
	}
}
