set(test_definitions FAKE_VERBS_LIBRARY="$<TARGET_FILE:fake_verbs>")
