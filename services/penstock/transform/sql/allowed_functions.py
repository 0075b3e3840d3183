"""The Spark SQL functions that a user's expression may call, and why the others may not.

This is an allow-list: a function in neither table is refused, so functions of a new version of
Spark are refused until a maintainer has reviewed them. A test compares the tables with the
functions of the installed Spark.

A function is allowed when its result depends on its arguments alone. `call_arguments` has further
rules for those that take options or sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_FAMILIES: Final[Mapping[str, str]] = {
    "operators that are functions, too": """
        ! != % & * + - / < << <= <=> <> = == > >= >> >>> ^ | || ~
        and between case div in like ilike not or regexp regexp_like rlike when""",
    "null, choice, errors": """
        assert_true coalesce equal_null greatest if ifnull isnan isnotnull isnull least nanvl nullif
        nullifzero nvl nvl2 raise_error zeroifnull typeof""",
    "casts": """
        bigint binary boolean cast date decimal double float int smallint string time timestamp
        tinyint try_cast""",
    "numbers": """
        abs acos acosh asin asinh atan atan2 atanh bin bit_count bit_get bround cbrt ceil ceiling
        conv cos cosh cot csc degrees e exp expm1 factorial floor getbit hypot ln log log10 log1p
        log2 mod negative pi pmod positive pow power radians rint round sec shiftleft shiftright
        shiftrightunsigned sign signum sin sinh sqrt tan tanh try_add try_divide try_mod
        try_multiply try_subtract width_bucket""",
    "texts": """
        ascii base64 bit_length btrim char char_length character_length chr collate collation concat
        concat_ws contains decode elt encode endswith find_in_set format_number format_string
        initcap instr is_valid_utf8 lcase left len length levenshtein locate lower lpad ltrim
        luhn_check make_valid_utf8 mask octet_length overlay parse_url position printf quote
        regexp_count regexp_extract regexp_extract_all regexp_instr regexp_replace regexp_substr
        repeat replace reverse right rpad rtrim sentences soundex space split split_part startswith
        str_to_map substr substring substring_index to_binary to_char to_number to_varchar translate
        trim try_parse_url try_to_binary try_to_number try_url_decode try_validate_utf8 ucase
        unbase64 unhex upper url_decode url_encode validate_utf8""",
    "hashes and ciphers": """
        aes_decrypt aes_encrypt crc32 hash hex md5 sha sha1 sha2 try_aes_decrypt xxhash64""",
    "dates and times": """
        add_months convert_timezone date_add date_diff date_format date_from_unix_date date_part
        date_sub date_trunc dateadd datediff datepart day dayname dayofmonth dayofweek dayofyear
        extract from_unixtime from_utc_timestamp hour last_day make_date make_dt_interval
        make_interval make_time make_timestamp make_timestamp_ltz make_timestamp_ntz
        make_ym_interval minute month monthname months_between next_day quarter second time_diff
        time_trunc timediff timestamp_micros timestamp_millis timestamp_seconds timestampadd
        timestampdiff to_date to_time to_timestamp to_timestamp_ltz to_timestamp_ntz
        to_unix_timestamp to_utc_timestamp trunc try_make_interval try_make_timestamp
        try_make_timestamp_ltz try_make_timestamp_ntz try_to_date try_to_time try_to_timestamp
        unix_date unix_micros unix_millis unix_seconds unix_timestamp weekday weekofyear year""",
    "arrays, maps, structs": """
        aggregate array array_append array_compact array_contains array_distinct array_except
        array_insert array_intersect array_join array_max array_min array_position array_prepend
        array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip
        cardinality element_at exists filter flatten forall get map map_concat map_contains_key
        map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with
        named_struct reduce sequence size slice sort_array struct transform transform_keys
        transform_values try_element_at zip_with""",
    "JSON, CSV, XML, variants": """
        from_csv from_json from_xml get_json_object is_variant_null json_array_length
        json_object_keys parse_json schema_of_csv schema_of_json schema_of_variant schema_of_xml
        to_csv to_json to_variant_object to_xml try_parse_json try_variant_get variant_get xpath
        xpath_boolean xpath_double xpath_float xpath_int xpath_long xpath_number xpath_short
        xpath_string""",
    "sketches and shapes in a column": """
        approx_top_k_estimate bitmap_bit_position bitmap_bucket_number bitmap_count
        hll_sketch_estimate hll_union kll_sketch_get_n_bigint kll_sketch_get_n_double
        kll_sketch_get_n_float kll_sketch_get_quantile_bigint kll_sketch_get_quantile_double
        kll_sketch_get_quantile_float kll_sketch_get_rank_bigint kll_sketch_get_rank_double
        kll_sketch_get_rank_float kll_sketch_merge_bigint kll_sketch_merge_double
        kll_sketch_merge_float kll_sketch_to_string_bigint kll_sketch_to_string_double
        kll_sketch_to_string_float st_asbinary st_geogfromwkb st_geomfromwkb st_setsrid st_srid
        theta_difference theta_intersection theta_sketch_estimate theta_union""",
}

ALLOWED: Final[frozenset[str]] = frozenset(" ".join(_FAMILIES.values()).split())
"""Functions (lower case) that may be called."""

_RUNS_CODE = "it calls any Java method of the engine"
_READS_FILES = "it reads files or data sources outside of the stream"
_KNOWS_ENGINE = "it returns the engine's user, catalog, version or files, which are not in the row"
_FROZEN = (
    "Spark computes it once for all micro-batches, so all rows would get the same value; use "
    "InsertField with `timestamp.field`"
)
_SEEDED = (
    "Spark draws its seed once for all micro-batches, so they would repeat the same values; "
    "generate them in the source or the sink"
)
_MANY_ROWS = "it makes several rows of one, which could no longer be matched with offsets"
_FEW_ROWS = "it aggregates several rows; a transform sees one row at a time"
_BY_NAME = "it turns a text into a name, so the called function could not be checked"

_REASONS: Final[Mapping[str, str]] = {
    _RUNS_CODE: "reflect java_method try_reflect",
    _READS_FILES: """
        from_avro to_avro schema_of_avro from_protobuf to_protobuf read_files python_worker_logs""",
    _KNOWS_ENGINE: """
        input_file_name input_file_block_start input_file_block_length current_catalog
        current_database current_schema current_user session_user user version
        spark_partition_id collations sql_keywords""",
    _FROZEN: """
        now curdate current_date current_time current_timestamp current_timezone
        localtimestamp""",
    _SEEDED: "rand random randn randstr uniform uuid shuffle monotonically_increasing_id",
    _MANY_ROWS: """
        explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple
        range variant_explode variant_explode_outer window window_time session_window""",
    _FEW_ROWS: """
        any any_value approx_count_distinct approx_percentile approx_top_k approx_top_k_accumulate
        approx_top_k_combine array_agg avg bit_and bit_or bit_xor bitmap_and_agg
        bitmap_construct_agg bitmap_or_agg bool_and bool_or collect_list collect_set corr count
        count_if count_min_sketch covar_pop covar_samp cume_dist dense_rank every first first_value
        grouping grouping_id histogram_numeric hll_sketch_agg hll_union_agg kll_merge_agg_bigint
        kll_merge_agg_double kll_merge_agg_float kll_sketch_agg_bigint kll_sketch_agg_double
        kll_sketch_agg_float kurtosis lag last last_value lead listagg max max_by mean median min
        min_by mode nth_value ntile percent_rank percentile percentile_approx percentile_cont
        percentile_disc rank regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope
        regr_sxx regr_sxy regr_syy row_number schema_of_variant_agg skewness some std stddev
        stddev_pop stddev_samp string_agg sum theta_intersection_agg theta_sketch_agg
        theta_union_agg try_avg try_sum var_pop var_samp variance""",
    _BY_NAME: "identifier",
}

REFUSED: Final[Mapping[str, str]] = {
    function: reason for reason, functions in _REASONS.items() for function in functions.split()
}
"""Function (lower case) → the reason why it may not be called."""

CONSTANTS: Final[Mapping[str, str]] = {
    word: REFUSED[word]
    for word in (
        "current_date",
        "current_time",
        "current_timestamp",
        "current_user",
        "localtimestamp",
        "session_user",
        "user",
    )
}
"""Names (lower case) that Spark resolves to functions without parentheses, bare and in backticks,
in any case, where the rows have no column of that name."""

WITHOUT_ARGUMENTS: Final[Mapping[str, str]] = {
    "unix_timestamp": _FROZEN,
    "to_unix_timestamp": _FROZEN,
}
"""Functions (lower case) that are refused when they are called without arguments."""

_OPERATORS: Final = """
    AND AS BETWEEN BOTH CASE DISTINCT DIV ELSE ESCAPE EXCEPT FOR FROM ILIKE IN INTERVAL IS LEADING
    LIKE NOT OR PLACING REGEXP RLIKE THEN TRAILING WHEN"""

_TYPES: Final = "CHAR CHARACTER DEC DECIMAL NUMERIC TIME VARCHAR"

KEYWORDS: Final[frozenset[str]] = frozenset(f"{_OPERATORS} {_TYPES}".split())
"""Words that may precede a parenthesis without being a function: operators, and types with
parameters."""
