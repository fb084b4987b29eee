package config

import "time"

// sources is a mapping of names to sources; it keeps the order of the file.
func sources(target *[]Source) field {
	return field{
		read: func(r *reader, v value) {
			v, ok := r.resolve(v)
			if !ok {
				return
			}
			r.each(v, func(name string, item value) {
				if len(*target) >= maxSources {
					r.fault(item.at, v.path, "at most %d sources are allowed", maxSources)
					return
				}
				if !namePattern.MatchString(name) {
					r.fault(item.at, v.path, "%q is not %s", name, nameWanted)
				}
				s := Source{Name: Text{Value: name, Pos: item.at}, Mode: "live", Unmatched: "ignore", Pos: item.at}
				seen := r.object(item, sourceKeys(&s))
				checkSource(r, item, seen)
				*target = append(*target, s)
			})
		},
		under:  func() keys { return sourceKeys(&Source{}) },
		suffix: ".NAME",
	}
}

func sourceKeys(s *Source) keys {
	return keys{
		"provider":        text(&s.Provider).require(),
		"secret":          oneSecret(&s.Secrets),
		"secrets":         secrets(&s.Secrets),
		"mode":            oneOf(&s.Mode, "live", "test"),
		"operation_scope": matching(&s.OperationScope, namePattern, nameWanted),
		"unmatched":       oneOf(&s.Unmatched, "ignore", "park"),
		"tolerance":       duration(&s.Tolerance, time.Second, 24*time.Hour),
		"hmac":            hmac(&s.HMAC),
		"url":             text(&s.URL),
		"public_keys":     publicKeys(&s.PublicKeys),
		"verify_token":    verifyToken(&s.VerifyToken),
		"audience":        text(&s.Audience),
		"service_account": text(&s.ServiceAccount),
		"webhook_id":      text(&s.WebhookID),
		"id":              text(&s.ID),
		"type":            text(&s.Type),
		"time":            text(&s.Time),
		"account":         text(&s.Account),
		"live_mode":       text(&s.LiveMode),
		"fingerprint":     texts(&s.Fingerprint),
		"retry":           retryOverride(&s.Retry),
		"fetch":           fetch(&s.Fetch),
		"rules":           items(&s.Rules, maxRules, ruleKeys),
	}
}

// checkSource looks at what several keys of a source say together.
func checkSource(r *reader, v value, seen map[string]Pos) {
	if seen == nil {
		return
	}
	_, one := seen["secret"]
	at, many := seen["secrets"]
	switch {
	case one && many:
		r.fault(at, v.path, "secret and secrets are both given; write all into secrets")
	case !one && !many && !publicly(seen):
		// Without a secret anybody could sign.
		r.fault(v.at, v.path, `key "secrets" is missing`)
	}
}

// publicly reports whether the source says how else its provider is known: by
// a key that is no secret. Whether that is enough is for the provider to say.
func publicly(seen map[string]Pos) bool {
	for _, key := range []string{"public_keys", "audience", "webhook_id"} {
		if _, ok := seen[key]; ok {
			return true
		}
	}
	return false
}

func verifyToken(target *Secret) field {
	return field{read: func(r *reader, v value) {
		if s, ok := r.secret(v); ok {
			*target = s
		}
	}}
}

func oneSecret(target *[]Secret) field {
	return field{read: func(r *reader, v value) {
		if s, ok := r.secret(v); ok {
			*target = append(*target, s)
		}
		// Faults found later count it as the first of the list.
		r.places[v.path+"s[0]"] = r.places[v.path]
	}}
}

func secrets(target *[]Secret) field {
	return field{read: func(r *reader, v value) {
		given := 0
		faults := len(r.faults)
		r.list(v, maxSecrets, func(item value) {
			given++
			if s, ok := r.secret(item); ok {
				*target = append(*target, s)
			}
		})
		if given == 0 && len(r.faults) == faults {
			r.fault(v.at, v.path, "has no secret; without one anybody could sign")
		}
	}}
}

func texts(target *[]Text) field {
	return field{read: func(r *reader, v value) {
		r.list(v, maxPaths, func(item value) {
			if t, ok := r.text(item, false); ok {
				*target = append(*target, t)
			}
		})
	}}
}

// publicKeys is texts that may stand in variables, as secrets do.
func publicKeys(target *[]Text) field {
	return field{read: func(r *reader, v value) {
		r.list(v, maxPaths, func(item value) {
			t, ok := r.text(item, false)
			if !ok {
				return
			}
			if t.Value, ok = r.expand(t, item.path); ok {
				*target = append(*target, t)
			}
		})
	}}
}

func hmac(target **HMAC) field {
	schema := func(h *HMAC) keys {
		return keys{
			"header":           str(&h.Header).require(),
			"prefix":           str(&h.Prefix),
			"encoding":         oneOf(&h.Encoding, "hex", "base64"),
			"algorithm":        oneOf(&h.Algorithm, "sha1", "sha256", "sha512"),
			"content":          text(&h.Content),
			"timestamp_header": str(&h.TimestampHeader),
			"id_header":        str(&h.IDHeader),
		}
	}
	return field{
		read: func(r *reader, v value) {
			h := HMAC{Encoding: "hex", Algorithm: "sha256", Content: Text{Value: "{body}", Pos: v.at}}
			if r.object(v, schema(&h)) != nil {
				*target = &h
			}
		},
		under: func() keys { return schema(&HMAC{}) },
	}
}

func fetch(target **Fetch) field {
	schema := func(f *Fetch) keys {
		return keys{
			"url":     httpURL(&f.URL),
			"token":   secretField(&f.Token).require(),
			"timeout": duration(&f.Timeout, 100*time.Millisecond, 30*time.Second),
		}
	}
	return field{
		read: func(r *reader, v value) {
			f := Fetch{Timeout: 5 * time.Second, Pos: v.at}
			if r.object(v, schema(&f)) != nil {
				*target = &f
			}
		},
		under: func() keys { return schema(&Fetch{}) },
	}
}

// httpURL is https, or http to this machine, without a user.
func httpURL(target *Text) field {
	return field{read: func(r *reader, v value) {
		t, ok := r.text(v, false)
		if !ok {
			return
		}
		if t.Value, ok = r.expand(t, v.path); !ok {
			return
		}
		if err := checkOutbound(t.Value); err != nil {
			r.fault(t.Pos, v.path, "%s", err)
			return
		}
		*target = t
	}}
}

func secretField(target *Secret) field {
	return field{read: func(r *reader, v value) {
		if s, ok := r.secret(v); ok {
			*target = s
		}
	}}
}

// retryOverride leaves what is not given at zero until the whole file is read.
func retryOverride(target **Retry) field {
	return field{
		read: func(r *reader, v value) {
			b := Retry{}
			if r.object(v, retryKeys(&b)) != nil {
				*target = &b
			}
		},
		under: func() keys { return retryKeys(&Retry{}) },
	}
}

func ruleKeys(rule *Rule, at Pos) keys {
	rule.Pos = at
	return keys{
		"when":      expression(&rule.When).require(),
		"expect":    expression(&rule.Expect),
		"transfers": transfers(&rule.Transfers).require(),
	}
}

func transferKeys(t *Transfer, at Pos) keys {
	t.Pos = at
	return keys{
		"debit":         expression(&t.Debit),
		"credit":        expression(&t.Credit),
		"amount":        expression(&t.Amount),
		"asset":         expression(&t.Asset),
		"operation":     expression(&t.Operation).require(),
		"parent":        expression(&t.Parent),
		"refunds":       expression(&t.Refunds),
		"running_total": boolean(&t.RunningTotal),
		"hold":          boolean(&t.Hold),
		"expires":       duration(&t.Expires, time.Second, maxExpires),
		"captures":      expression(&t.Captures),
		"final":         expression(&t.Final),
		"fact":          boolean(&t.Fact),
		"voids":         expression(&t.Voids),
	}
}
