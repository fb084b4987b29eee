package ledger

import (
	"embed"
	"io/fs"
)

//go:embed sql/*.sql
var migrations embed.FS

// Migrations holds the numbered SQL of this package, for goose.
func Migrations() fs.FS {
	files, err := fs.Sub(migrations, "sql")
	if err != nil {
		panic(err) // the directory is embedded above
	}
	return files
}
